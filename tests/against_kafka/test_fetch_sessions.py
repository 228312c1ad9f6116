"""Fetch sessions (KIP-227), by name and by topic id: ids, epochs, added, forgotten and unknown partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.test_administration import UNKNOWN_ID
from tests.topic_ids.kit import idempotent

BY_NAME, BY_ID = 12, 18
INITIAL, FINAL = 0, -1


def sessions(side: Side, name: str, version: int) -> None:
    """Each broker chooses its own session ids. For partitions with errors, pybroker returns null aborted transactions,
    Kafka an empty list."""
    known = side.topic(name, 3)
    other = side.topic(f"{name}-other", 1)
    ids: dict[str, Uuid] = {name: known, f"{name}-other": other, f"not-{name}": UNKNOWN_ID}
    for value in (b"a", b"b"):
        data = m.ProduceRequest_PartitionProduceData(index=0, records=idempotent(-1, -1, value, epoch=-1))
        written = [m.ProduceRequest_TopicProduceData(name=name, partition_data=[data])]
        side.ask(m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=written), 11, but=("log_append_time_ms",))

    def rows(partitions: dict[tuple[str, int], int], epoch: int = -1) -> list[m.FetchRequest_FetchTopic]:
        return [
            m.FetchRequest_FetchTopic(
                topic=topic,
                topic_id=ids[topic],
                partitions=[
                    m.FetchRequest_FetchPartition(
                        partition=index,
                        current_leader_epoch=epoch,
                        fetch_offset=offset,
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
            for (topic, index), offset in partitions.items()
        ]

    def ask(
        session: int,
        epoch: int,
        partitions: dict[tuple[str, int], int] | None = None,
        forgotten: list[tuple[str, list[int]]] | None = None,
        **more: Any,
    ) -> int:
        request = m.FetchRequest(
            max_wait_ms=1,
            session_id=session,
            session_epoch=epoch,
            topics=rows(partitions or {}),
            forgotten_topics_data=[
                m.FetchRequest_ForgottenTopic(topic=topic, topic_id=ids[topic], partitions=indexes)
                for topic, indexes in forgotten or []
            ],
            **more,
        )
        return noted(request)

    def noted(request: m.FetchRequest) -> int:
        answer = side.ask(request, version, but=("session_id", "responses"))
        # Each broker returns partitions in its own order, and therefore groups them differently by topic.
        for row in answer.responses:
            for part in row.partitions:
                part.records = b"some" if part.records else None
        parts = [(row.topic, row.topic_id, part) for row in answer.responses for part in row.partitions]
        side.note(f"partitions of {str(request)[200:700]}", parts, but=("aborted_transactions",))
        known = answer.session_id == request.session_id
        side.note("the session", "known" if known else str(bool(answer.session_id)))
        return int(answer.session_id)

    everything = {(name, 0): 0, (name, 1): 0, (name, 2): 0}
    # An id of no session. Kafka fails for the highest id, so it is not used.
    for session in (0, 1, -1, 2**30):
        for epoch in (FINAL, 1, 5, -2, 2**31 - 1):
            ask(session, epoch, everything)
            ask(session, epoch)
    ask(0, INITIAL)
    # A session that is used correctly.
    session = ask(0, INITIAL, everything)
    ask(session, 1)
    ask(session, 2, {(name, 0): 1})
    ask(session, 3, {(name, 0): 2})
    ask(session, 4, {(name, 0): 3})
    ask(session, 5, {(name, 0): 0})
    ask(session, 6, {(f"{name}-other", 0): 0})
    ask(session, 7, {}, [(name, [0])])
    ask(session, 8, {(name, 0): 0}, [(name, [0])])
    ask(session, 9, {}, [(name, [0, 1, 1, 9, -1]), (f"not-{name}", [0]), (f"{name}-other", [0])])
    ask(session, 10)
    ask(session, 11, {}, [(name, [2])])
    ask(session, 12)
    # Epochs that the session does not expect.
    session = ask(0, INITIAL, everything)
    for epoch in (0, 2, 7, -2, 2**31 - 1):
        ask(session, epoch) if epoch else None
    ask(session, 1)
    ask(session, 1)
    ask(session, 2)
    # A new session replaces the old one, and ends.
    again = ask(session, INITIAL, everything)
    side.note("another", str(again != session))
    ask(session, 3)
    ask(again, 1)
    ask(again, FINAL, {(name, 0): 0})
    ask(again, 2)
    ask(again, FINAL)
    # Partitions that do not exist.
    session = ask(0, INITIAL, {(name, 0): 0, (name, 9): 0, (f"not-{name}", 0): 0, (name, -1): 0})
    ask(session, 1)
    ask(session, 2, {(name, 9): 1})
    ask(session, 3, {}, [(name, [9]), (f"not-{name}", [0])])
    ask(session, 4)
    session = ask(0, INITIAL, {(name, 0): 99})
    ask(session, 1)
    ask(session, 2, {(name, 0): 0})
    # The session has no partitions at first.
    session = ask(0, INITIAL, {})
    ask(session, 1, everything)
    for max_bytes, min_bytes, max_wait_ms in ((0, 0, 1), (1 << 20, -1, 1), (1 << 20, 0, -1)):
        request = m.FetchRequest(
            session_epoch=FINAL,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            topics=rows({(name, 0): 0, (name, 1): 0}),
        )
        noted(request)
    for epoch in (-2, 0, 1, 99):
        noted(m.FetchRequest(max_wait_ms=1, session_epoch=FINAL, topics=rows({(name, 0): 0}, epoch)))


def by_name(side: Side, name: str) -> None:
    sessions(side, name, BY_NAME)


def by_id(side: Side, name: str) -> None:
    sessions(side, name, BY_ID)


@pytest.mark.parametrize("story", [by_name, by_id])
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
