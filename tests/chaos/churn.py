"""Topics that are created, written to by id, deleted, and created again under the same name or undeleted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from pybroker.native import CodecError, Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode, error_name
from tests.chaos.history import History, Place
from tests.topic_ids.lives import Lives

PARTITIONS = 2
RECORDS = (3, 25)
"""Minimum and maximum number of acknowledged records of an incarnation."""
UNDELETED = 0.3
"""The share of incarnations that are undeleted."""
ANSWER_S = 8.0
"""Time limit for the answer of a broker, which may be paused."""
PAUSE_S = 0.03
STUCK_S = 300.0
"""A run fails if the cluster decides nothing for this long."""

MAY_PASS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
"""Error codes that are allowed during faults. Every other code is a failure."""
R = TypeVar("R")


class Churn(threading.Thread):
    """Creates, fills and deletes topics of one name. Each request goes to a random broker, because every broker must be
    able to handle it."""

    def __init__(self, name: str, ports: Mapping[int, int], history: History, seed: int) -> None:
        """`ports`: the client ports of the brokers."""
        super().__init__(daemon=True, name=name)
        self._brokers = {number: Lives(port, ANSWER_S) for number, port in ports.items()}
        self._history = history
        self._random = random.Random(seed)
        self._numbers: dict[Uuid, int] = {}
        """The number of the next record, by incarnation."""
        self._asked_in_vain: set[Uuid] = set()
        """Deletions that a broker has not confirmed. A broker that hung executes them when it resumes, whatever the
        topic's state is then."""
        self.enough = threading.Event()

    def run(self) -> None:
        try:
            life: Uuid | None = None
            while True:
                stays_dead = self._random.random() >= UNDELETED or life in self._asked_in_vain
                if life is None or stays_dead or not self._bring_back(life):
                    life = self._make()
                if life is None or not self._fill(life) or self.enough.is_set() or not self._remove(life):
                    return
        except Exception as problem:
            self._complain(f"ended: {problem!r}")

    def _complain(self, what: str) -> None:
        self._history.problems.append(f"topic {self.name}: {what}")

    # --- steps --------------------------------------------------------------------------------------------------------

    def _make(self) -> Uuid | None:
        """Create a topic of the name; retry until one exists. Return its id, or None if the run has enough."""
        topic = m.CreateTopicsRequest_CreatableTopic(
            name=self.name,
            num_partitions=PARTITIONS,
            replication_factor=3,
            configs=[m.CreateTopicsRequest_CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = m.CreateTopicsRequest(topics=[topic], timeout_ms=int(ANSWER_S * 1000))

        def attempt(lives: Lives) -> Uuid | None:
            answer = lives.call(request, 7).topics[0]
            if answer.error_code == 0:
                return answer.topic_id  # type: ignore[no-any-return]  # the wire's classes have no types
            if answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                # Created by an attempt whose response was lost; earlier incarnations are deleted, but some brokers do
                # not know it yet.
                found = lives.metadata(self.name)
                known = found.error_code or found.topic_id.hex in self._history.lives
                return None if known else found.topic_id
            self._note("CreateTopics", answer.error_code)
            return None

        life = self._until(attempt, unless_enough=True)
        if life is not None:
            self._history.lives[life.hex] = self.name
            self._history.counts["incarnations"] += 1
        return life

    def _fill(self, life: Uuid) -> bool:
        """Write records until enough are acknowledged; each record has its own value and is acknowledged once. Return
        False if the topic is gone."""
        wanted = self._random.randint(*RECORDS)

        def attempt(lives: Lives) -> int | None:
            number = self._numbers.get(life, 0)
            partition = number % PARTITIONS
            leader = self._leader(lives, life, partition)
            if leader is None:
                return None
            value = f"{life.hex}/{number}"
            self._numbers[life] = number + 1
            sent_at = time.monotonic()
            answer = leader.produce(life, value, partition=partition)
            if answer.error_code:
                self._note("Produce", answer.error_code)
                return None
            self._history.acknowledge(Place(life.hex, partition), answer.base_offset, value, sent_at)
            return 1

        return all(self._until(attempt, unless_enough=True) for _ in range(wanted)) or self.enough.is_set()

    def _remove(self, life: Uuid) -> bool:
        def attempt(lives: Lives) -> bool | None:
            known = life in self._asked_in_vain
            self._asked_in_vain.add(life)
            answer = lives.delete(life)
            if not known and answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
                self._asked_in_vain.remove(life)
            if answer.error_code in (0, ErrorCode.UNKNOWN_TOPIC_ID):
                # An unknown topic: deleted by an attempt whose response was lost.
                return True
            self._note("DeleteTopics", answer.error_code)
            return None

        if self._until(attempt, unless_enough=False):
            self._history.deleted.add(life.hex)
            self._history.counts["deletions"] += 1
            return True
        return False

    def _bring_back(self, life: Uuid) -> bool:
        """Undelete the topic; return False if that had no effect."""

        def attempt(lives: Lives) -> bool | None:
            code = lives.undelete(life).error_code
            if code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                # The topic exists: an attempt whose response was lost has created it.
                return True
            self._note("UndeleteTopics", code)
            return None

        # From this request on the topic may come back, whatever the response is.
        self._history.deleted.discard(life.hex)
        if not self._until(attempt, unless_enough=False):
            return False
        self._history.counts["undeletions"] += 1
        return True

    # --- requests -----------------------------------------------------------------------------------------------------

    def _leader(self, lives: Lives, life: Uuid, partition: int) -> Lives | None:
        found = lives.metadata(self.name)
        if found.error_code or found.topic_id != life:
            return None
        return self._brokers.get(found.partitions[partition].leader_id)

    def _until(self, attempt: Callable[[Lives], R | None], *, unless_enough: bool) -> R | None:
        """Ask one broker after another until one returns a result; None if the run ends first."""
        give_up = time.monotonic() + STUCK_S
        while not (unless_enough and self.enough.is_set()):
            lives = self._random.choice(list(self._brokers.values()))
            try:
                found = attempt(lives)
            except (OSError, CodecError):
                found = None
            if found is not None:
                return found
            if time.monotonic() > give_up:
                self._complain(f"nothing came of it for {STUCK_S:.0f} s")
                return None
            time.sleep(PAUSE_S)
        return None

    def _note(self, what: str, code: int) -> None:
        if code not in MAY_PASS:
            self._complain(f"{what} is answered {error_name(code)}")
