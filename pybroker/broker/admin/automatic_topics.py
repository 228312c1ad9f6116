"""Creates topics that groups need: dead letter queues of share groups (KIP-1191), and internal topics of Kafka Streams
applications when a heartbeat response reports them missing (KIP-1071).

The heartbeat response does not wait for the creation, because the member sends another heartbeat anyway. After a failed
creation the broker waits before it tries again, and responses report the error until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from pybroker.broker.admin.topics import AUTO_CREATE_TIMEOUT_MS, TopicAdmin, TopicSpec
from pybroker.broker.clock import Clock
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

ENABLE = "errors.deadletterqueue.group.enable"


class DeadLetterTopics:
    """Implements `dead_letters.Queues`. `config`: returns all settings of a topic."""

    def __init__(self, topics: TopicAdmin, config: Callable[[Uuid], Mapping[str, str]]) -> None:
        self._topics = topics
        self.config = config

    def accepts(self, topic_id: Uuid) -> bool:
        """Return whether the topic's settings allow dead letters (see `Queues`)."""
        return self.config(topic_id)[ENABLE] == "true"

    async def create(self, topic: str) -> None:
        """Create the topic with this cluster's defaults (see `Queues`). Do not fail if it already exists."""
        spec = TopicSpec(topic, configs={ENABLE: "true"})
        (made,) = (await self._topics.create([spec], AUTO_CREATE_TIMEOUT_MS)).each
        if isinstance(made, KafkaError) and made.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise made


log = logging.getLogger(__name__)

PROBLEMS_MAX = 1_000
"""Limit of stored errors, one per topic. Above the limit, the topic whose first error is oldest is dropped."""


class StreamsTopics:
    """Creates internal topics in the background and keeps the errors of failed creations."""

    def __init__(self, topics: TopicAdmin, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self._making: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._problems: dict[str, tuple[str, int]] = {}
        """Topic name → (error of the last creation, monotonic time in ms before which the creation is not retried)."""

    def make(self, specs: Sequence[TopicSpec], timeout_ms: int, created_by: str, caller: Caller) -> None:
        """Start to create each topic whose creation is not already running."""
        now_ms = self._clock.monotonic_ms()
        self._problems = {name: known for name, known in self._problems.items() if known[1] > now_ms}
        mine = [spec for spec in specs if spec.name not in self._making and spec.name not in self._problems]
        if not mine:
            return
        self._making.update(spec.name for spec in mine)
        task = asyncio.get_running_loop().create_task(self._make(mine, timeout_ms, created_by, caller))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, specs: Sequence[TopicSpec], timeout_ms: int, created_by: str, caller: Caller) -> None:
        try:
            results = await self._topics.create(specs, timeout_ms, created_by=created_by, caller=caller)
            for spec, result in zip(specs, results.each, strict=True):
                if isinstance(result, KafkaError) and result.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    self._note([spec], result, timeout_ms)
        except KafkaError as problem:
            self._note(specs, problem, timeout_ms)
        finally:
            self._making.difference_update(spec.name for spec in specs)

    def _note(self, specs: Iterable[TopicSpec], problem: KafkaError, timeout_ms: int) -> None:
        until_ms = self._clock.monotonic_ms() + timeout_ms
        for spec in specs:
            log.warning("cannot create an internal topic of a streams application topic=%s: %s", spec.name, problem)
            self._problems[spec.name] = problem.message or ErrorCode(problem.code).name, until_ms
        while len(self._problems) > PROBLEMS_MAX:
            del self._problems[next(iter(self._problems))]

    def problems(self, names: Iterable[str]) -> dict[str, str]:
        """Return the errors of failed creations by topic."""
        return {name: self._problems[name][0] for name in names if name in self._problems}
