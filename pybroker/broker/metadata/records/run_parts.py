"""Runs of brokers, marks of staged data and outcomes of requests, as fields of NoOpRecord; producer ids as
ProducerIdsRecord."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pybroker.broker.metadata.image import ImageDelta, RequestOutcome
from pybroker.broker.metadata.records.frames import encode_record
from pybroker.broker.metadata.records.own_facts import OwnFacts
from pybroker.broker.metadata.znodes import RunningNode, StagedNode
from pybroker.native import Uuid
from pybroker.protocol import messages as m

NO_BROKER = -1


def run_frames(delta: ImageDelta, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of a delta's runs, marks, outcomes and producer ids."""
    for broker_id, run in delta.running.items():
        facts.add(
            "broker_runs",
            m.NoOpRecord_BrokerRun(
                broker_id,
                run.boot_id,
                run.flush_mode,
                list(run.directory_ids),
                list(run.gone),
                run.stopped,
                run.suspect,
                run.topic_ids,
            ),
        )
    for broker_id, marks in delta.staged.items():
        for topic_id, mark in marks.items():
            facts.add(
                "staged",
                m.NoOpRecord_StagedMark(
                    broker_id,
                    topic_id,
                    mark.topic,
                    mark.staged_ms,
                    mark.remove_after_ms,
                    mark.boot_id,
                    mark.monotonic_ms,
                    mark.left_ms,
                    mark.promised,
                ),
            )
            yield from facts.full()
    for broker_id, topic_id in delta.unstaged:
        facts.add("unstaged", m.NoOpRecord_StagedKey(broker_id, topic_id))
        yield from facts.full()
    for request_id, outcome in delta.outcomes.items():
        facts.add("outcomes", m.NoOpRecord_RequestOutcome(request_id, *outcome))
        yield from facts.full()
    for request_id in delta.forgotten_outcomes:
        facts.add("forgotten_outcomes", request_id)
        yield from facts.full()
    if delta.next_producer_id >= 0:
        yield encode_record(m.ProducerIdsRecord(NO_BROKER, -1, delta.next_producer_id))


class RunReader:
    """Reads runs, marks, outcomes and producer ids from records."""

    def __init__(self) -> None:
        self.running: dict[int, RunningNode] = {}
        self.staged: dict[int, dict[Uuid, StagedNode]] = {}
        self.unstaged: list[tuple[int, Uuid]] = []
        self.outcomes: dict[Uuid, RequestOutcome] = {}
        self.forgotten_outcomes: list[Uuid] = []
        self.next_producer_id = -1

    def producer_ids(self, record: m.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def read(self, record: m.NoOpRecord) -> None:
        for run in record.broker_runs:
            self.running[run.broker_id] = RunningNode(
                run.boot_id,
                run.flush_mode,
                tuple(run.directory_ids),
                tuple(run.gone),
                run.stopped,
                run.suspect,
                run.topic_ids,
            )
        for mark in record.staged:
            self.staged.setdefault(mark.broker_id, {})[mark.topic_id] = _mark(mark)
        self.unstaged += ((key.broker_id, key.topic_id) for key in record.unstaged)
        self.outcomes.update(
            (outcome.request_id, RequestOutcome(outcome.at_ms, outcome.event, outcome.reply))
            for outcome in record.outcomes
        )
        self.forgotten_outcomes += record.forgotten_outcomes


def _mark(mark: Any) -> StagedNode:
    return StagedNode(
        mark.topic_name,
        mark.staged_ms,
        mark.remove_after_ms,
        mark.boot_id,
        mark.monotonic_ms,
        mark.left_ms,
        mark.promised,
    )
