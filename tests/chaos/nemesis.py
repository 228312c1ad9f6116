"""Faults of a chaos run: steps drawn from a seed, and the code that applies and undoes each of them.

A step has no fixed duration. It lasts until a number of records has been acknowledged during the fault, or until that
takes too long. The order of steps depends only on the seed.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pybroker.protocol import messages as m
from pybroker.testing.child_processes import pause
from tests.chaos.history import History
from tests.support.cluster import BrokerCluster, ClusterBroker
from tests.support.cluster_state import ClusterState
from tests.support.links import ZOOKEEPER, Links
from tests.support.partition_states import StateUnknownError
from tests.support.wire import answers_metadata
from tests.wire.client import WireClient

RECORDS = (20, 400)
"""Minimum and maximum number of records that must be acknowledged during a step."""
PATIENCE_S = 6.0
"""Longest duration of a step, if the records are not acknowledged."""

SESSION_MS = 2_000
"""Session timeout of brokers with ZooKeeper: short sessions cause more events in a run."""
MISSED_S = 15.0
"""Longest wait for the end of a session."""
ASK_MS = 3_000
MOVED = "moved"
"""The topic whose replicas move: two partitions with two replicas each."""
FULL_BYTES = 4_096
"""Limit of a file's size on a full disk: no larger segment can be created, and no record can be appended to a file of
this size."""


BESIDE = ("", "", "", "pair", "one way", "no ZooKeeper")
"""Additional faults of a step, most often none: a cut link from the second broker to the third one, or to ZooKeeper."""


class Step(NamedTuple):
    """One fault and its parameters."""

    fault: str
    first: int
    """The first broker. Faults that select a broker by the cluster's state use this one if the state selects none."""
    second: int
    """The second broker."""
    records: int
    settles: bool
    """Whether to wait until all replicas are in sync before the next step."""
    beside: str = ""
    """A link that is cut at the beginning of the step, see `BESIDE`."""


def plan(seed: int, brokers: int, faults: Mapping[str, int]) -> Iterator[Step]:
    """Yield steps without end. `faults`: the weight of each fault in the random choice."""
    random_ = random.Random(seed)
    names, weights = list(faults), list(faults.values())
    left: list[str] = []
    while True:
        if not left:
            # Each fault comes once before the weights decide.
            left = random_.sample(names, len(names)) + random_.choices(names, weights, k=len(names))
        first, second = random_.sample(range(1, brokers + 1), 2)
        records, settles, beside = random_.randint(*RECORDS), random_.random() < 0.6, random_.choice(BESIDE)
        yield Step(left.pop(0), first, second, records, settles, beside)


class Nemesis:
    """Applies steps to a running cluster."""

    def __init__(self, cluster: BrokerCluster, links: Links, state: ClusterState, history: History) -> None:
        self._cluster = cluster
        self._links = links
        self._state = state
        self._history = history
        self.faults: dict[str, Callable[[Step], None]] = {
            "kill": self._kill,
            "kill the controller": self._kill_controller,
            "kill the leader of most": self._kill_leader,
            "kill and start at once": self._kill_and_start,
            "kill while it starts": self._kill_while_it_starts,
            "stop": self._stop,
            "kill two": self._kill_two,
            "kill all": self._kill_all,
            "pause past the session": self._pause,
            "pause the controller": self._pause_controller,
            "pause the leader of most": self._pause_leader,
            "pause shortly": self._pause_shortly,
            "cut off from ZooKeeper": self._without_zookeeper,
            "cut off from ZooKeeper's answers": self._without_answers,
            "cut a link": self._cut_link,
            "cut a link one way": self._cut_one_way,
            "cut off from brokers": self._without_brokers,
            "isolate": self._isolate,
            "isolate the controller": self._isolate_controller,
            "kill ZooKeeper": self._kill_zookeeper,
            "pause ZooKeeper": self._pause_zookeeper,
            "fill a disk": self._fill,
            "refuse in its name": self._refuse,
            "move replicas": self._move,
            "move and kill": self._move_and_kill,
            "elect preferred leaders": self._elect_preferred,
        }

    @property
    def brokers(self) -> int:
        """The number of brokers."""
        return len(self._cluster.brokers)

    def do(self, step: Step) -> None:
        """Apply one step and undo it. The cluster may still be recovering on return."""
        third = min(set(self._cluster.brokers) - {step.first, step.second})
        match step.beside:
            case "pair":
                self._links.cut_off(step.second, third)
            case "one way":
                self._links.cut(step.second, third)
            case "no ZooKeeper":
                self._links.cut_off(step.second, ZOOKEEPER)
        self.faults[step.fault](step)
        if step.beside:
            self._links.heal()
            self._history.counts["beside"] += 1
        self._history.counts[step.fault] += 1

    def heal(self) -> None:
        """Restore all links and start all brokers."""
        self._links.heal()
        for broker in self._cluster.brokers.values():
            self._run(broker)

    # --- faults -------------------------------------------------------------------------------------------------------

    def _kill(self, step: Step) -> None:
        self._kill_these(step, step.first)

    def _kill_controller(self, step: Step) -> None:
        self._kill_these(step, self._controller() or step.first)

    def _kill_leader(self, step: Step) -> None:
        self._kill_these(step, self._leader_of_most() or step.first)

    def _kill_two(self, step: Step) -> None:
        self._kill_these(step, step.first, step.second)

    def _kill_all(self, step: Step) -> None:
        self._kill_these(step, *self._cluster.brokers, records=0)

    def _kill_these(self, step: Step, *numbers: int, records: int | None = None) -> None:
        for number in numbers:
            self._end(number)
        self.progress(step.records if records is None else records)
        for number in numbers:
            self._run(self._cluster.brokers[number])

    def _kill_and_start(self, step: Step) -> None:
        self._end(step.first)
        self._run(self._cluster.brokers[step.first])
        self.progress(step.records)

    def _kill_while_it_starts(self, step: Step) -> None:
        broker = self._cluster.brokers[step.first]
        for pause_s in (0.3, 0.6, 1.0):
            self._end(step.first)
            self._run(broker)
            time.sleep(pause_s)
        self.progress(step.records)

    def _stop(self, step: Step) -> None:
        broker = self._cluster.brokers[step.first]
        self._look_at(broker)
        if broker.running and answers_metadata(broker.port):
            broker.stop()
            self._links.refuse(step.first)
            self._history.counts["stops"] += 1
        else:
            self._end(step.first)
        self.progress(step.records)
        self._run(broker)

    def _pause(self, step: Step) -> None:
        self._pause_this(step, step.first)

    def _pause_controller(self, step: Step) -> None:
        self._pause_this(step, self._controller() or step.first)

    def _pause_leader(self, step: Step) -> None:
        self._pause_this(step, self._leader_of_most() or step.first)

    def _pause_this(self, step: Step, number: int, *, until_missed: bool = True) -> None:
        broker = self._cluster.brokers[number]
        self._look_at(broker)
        if not broker.running:
            return
        pause(broker.pid)
        if until_missed:
            self._missed(number)
        self.progress(step.records)
        os.kill(broker.pid, signal.SIGCONT)

    def _pause_shortly(self, step: Step) -> None:
        self._pause_this(step._replace(records=step.records // 4), step.first, until_missed=False)

    def _without_zookeeper(self, step: Step) -> None:
        self._links.cut_off(step.first, ZOOKEEPER)
        self._cut_until(step, step.first)

    def _without_answers(self, step: Step) -> None:
        self._links.cut(ZOOKEEPER, step.first)
        self._cut_until(step, step.first)

    def _cut_link(self, step: Step) -> None:
        self._links.cut_off(step.first, step.second)
        self._cut_until(step)

    def _cut_one_way(self, step: Step) -> None:
        self._links.cut(step.first, step.second)
        self._cut_until(step)

    def _without_brokers(self, step: Step) -> None:
        self._links.cut_off(step.first, *self._others(step.first))
        self._cut_until(step)

    def _isolate(self, step: Step) -> None:
        self._links.cut_off(step.first, ZOOKEEPER, *self._others(step.first))
        self._cut_until(step, step.first)

    def _isolate_controller(self, step: Step) -> None:
        number = self._controller() or step.first
        self._links.cut_off(number, ZOOKEEPER, *self._others(number))
        self._cut_until(step, number)

    def _cut_until(self, step: Step, missed: int | None = None) -> None:
        if missed is not None:
            self._missed(missed)
        self.progress(step.records)
        self._links.heal()

    def _kill_zookeeper(self, step: Step) -> None:
        self._cluster.zookeeper.kill()
        self.progress(step.records)
        self._cluster.zookeeper.start()

    def _pause_zookeeper(self, step: Step) -> None:
        self._cluster.zookeeper.pause()
        # This lasts longer than any session; operations that need no write to ZooKeeper continue.
        time.sleep(1.5 * SESSION_MS / 1000)
        self.progress(step.records)
        self._cluster.zookeeper.resume()

    def _fill(self, step: Step) -> None:
        broker = self._cluster.brokers[step.first]
        self._look_at(broker)
        # A broker that starts on a full disk is allowed to end.
        if not broker.running or not answers_metadata(broker.port):
            return
        _limit_files(broker, FULL_BYTES)
        self.progress(step.records)
        self._look_at(broker)
        if broker.running:
            _limit_files(broker, None)

    def _refuse(self, step: Step) -> None:
        """Refuse connections in the broker's name: it looks dead to others, although it runs."""
        self._links.refuse(step.first)
        for other in self._others(step.first):
            self._links.hang_up(step.first, other)
        self.progress(step.records)
        self._links.accept(step.first)

    def _move(self, step: Step) -> None:
        self._ask_to_move(step)
        self.progress(step.records)

    def _move_and_kill(self, step: Step) -> None:
        self._ask_to_move(step)
        self._kill_these(step, step.second)

    def _ask_to_move(self, step: Step) -> None:
        """Request a reassignment. The run does not check that it begins, but checks that a begun one ends."""
        third = min(set(self._cluster.brokers) - {step.first, step.second})
        wanted = [[step.first, step.second], [step.second, third] if step.records % 3 else None]
        partitions = [
            m.AlterPartitionReassignmentsRequest_ReassignablePartition(partition_index=index, replicas=replicas)
            for index, replicas in enumerate(wanted)
        ]
        topic = m.AlterPartitionReassignmentsRequest_ReassignableTopic(name=MOVED, partitions=partitions)
        self._ask(step, m.AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=ASK_MS), 0)

    def _elect_preferred(self, step: Step) -> None:
        self._ask(step, m.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=ASK_MS), 2)
        self.progress(step.records)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def progress(self, records: int) -> bool:
        """Wait until this many more records are acknowledged; return False if that takes too long."""
        counts = self._history.counts
        until, give_up = counts["acknowledged"] + records, time.monotonic() + PATIENCE_S
        while counts["acknowledged"] < until:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.02)
        return True

    def _ask(self, step: Step, request: Any, version: int) -> None:
        broker = self._cluster.brokers[step.first]
        try:
            with WireClient(broker.port, timeout_s=2 * ASK_MS / 1000) as client:
                client.call(request, version)
        except OSError:
            self._history.counts["asked in vain"] += 1

    def _end(self, number: int) -> None:
        broker = self._cluster.brokers[number]
        self._look_at(broker)
        if broker.running:
            broker.kill()
            self._links.refuse(number)
            self._history.counts["kills"] += 1

    def _run(self, broker: ClusterBroker) -> None:
        self._look_at(broker)
        if not broker.running:
            self._links.accept(broker.broker_id)
            broker.launch()

    def _look_at(self, broker: ClusterBroker) -> None:
        """Record a problem if the broker has ended by itself."""
        code = broker.ended()
        if code is not None:
            self._history.problems.append(
                f"broker {broker.broker_id} ended by itself with exit code {code}:\n{broker.log_tail(30)}"
            )

    def _others(self, number: int) -> list[int]:
        return [one for one in self._cluster.brokers if one != number]

    def _missed(self, number: int) -> None:
        """Wait until a broker's session has ended."""
        give_up = time.monotonic() + MISSED_S
        while time.monotonic() < give_up:
            try:
                if number not in self._state.brokers():
                    self._history.counts["sessions over"] += 1
                    return
            except StateUnknownError:
                pass
            time.sleep(0.1)

    def _controller(self) -> int | None:
        try:
            return self._state.controller()
        except StateUnknownError:
            return None

    def _leader_of_most(self) -> int | None:
        try:
            leaders = [one.leader for one in self._state.partitions().values() if one.leader > 0]
        except StateUnknownError:
            return None
        return max(leaders, key=leaders.count) if leaders else None


def _limit_files(broker: ClusterBroker, size: int | None) -> None:
    """Limit the size of files: larger writes fail as on a full disk. None removes the limit. Only on Linux."""
    if sys.platform == "linux":
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
