"""Kafka's own VerifiableConsumer in groups of both protocols: one reads what VerifiableProducer writes, a second one
joins, the first one leaves, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.groups.kit import create_topic, unique, until
from tests.support.brokers import PybrokerProcess
from tests.support.verifiable import Program

PARTITIONS, RECORDS = 6, 2_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(tmp_path_factory.mktemp("verifiable"))
    broker.start()
    yield broker
    broker.kill()


def read(members: list[Program]) -> list[tuple[int, int]]:
    """Return (partition, offset) of each received record, once for each time it was received."""
    return [(event["partition"], event["offset"]) for one in members for event in one.told("record_data")]


def committed(members: list[Program]) -> dict[int, int]:
    """Return the highest stored position of each partition."""
    found: dict[int, int] = {}
    for one in members:
        for event in one.told("offsets_committed"):
            for row in event["offsets"] if event["success"] else ():
                found[row["partition"]] = max(found.get(row["partition"], 0), row["offset"])
    return found


def assigned(member: Program) -> set[int]:
    """Return the member's partitions, from its assigned and revoked events."""
    has: set[int] = set()
    for line in sorted(
        member.told("partitions_assigned") + member.told("partitions_revoked"), key=lambda event: event["timestamp"]
    ):
        partitions: set[int] = {one["partition"] for one in line["partitions"]}
        has = has | partitions if line["name"] == "partitions_assigned" else has - partitions
    return has


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_come_and_go_and_nothing_is_left_out(broker: PybrokerProcess, protocol: str) -> None:
    programs: list[Program] = []

    def started(name: str, *arguments: str) -> Program:
        programs.append(Program(name, *arguments))
        return programs[-1]

    def produced() -> set[tuple[int, int]]:
        producer = started("VerifiableProducer", *at, "--max-messages", str(RECORDS))
        producer.ends()
        rows: list[dict[str, Any]] = producer.told("producer_send_success")
        assert len(rows) == RECORDS, producer.lines[-5:]
        return {(row["partition"], row["offset"]) for row in rows}

    try:
        topic, group = create_topic(broker.bootstrap, PARTITIONS), unique("verifiable")
        at = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
        member = [*at, "--group-id", group, "--group-protocol", protocol, "--reset-policy", "earliest", "--verbose"]
        first = started("VerifiableConsumer", *member)
        written = produced()
        until(lambda: set(read([first])) == written, "one member reads everything")
        second = started("VerifiableConsumer", *member)
        members = [first, second]
        until(lambda: len(assigned(first)) == len(assigned(second)) == PARTITIONS // 2, "they share")
        assert not assigned(first) & assigned(second)
        written |= produced()
        until(lambda: set(read(members)) == written, "both read everything together")
        first.process.terminate()
        first.ends()
        assert first.told("shutdown_complete"), first.lines[-5:]
        until(lambda: len(assigned(second)) == PARTITIONS, "who stays has everything")
        written |= produced()
        until(lambda: set(read(members)) == written, "who stays reads everything")
        ends = {partition: 1 + max(at for one, at in written if one == partition) for partition, _ in written}
        until(lambda: committed(members) == ends, "what was read is stored")
        # Every member committed after each poll and released partitions in order: no record was read twice.
        assert len(read(members)) == len(written)
    finally:
        for program in programs:
            program.process.kill()
