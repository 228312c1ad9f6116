"""Kafka's own VerifiableShareConsumer: two members share what its VerifiableProducer writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.groups.kit import create_topic, unique, until
from tests.support.brokers import PybrokerProcess
from tests.support.verifiable import Program

RECORDS = 3000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(
        tmp_path_factory.mktemp("verifiable"), {"share.coordinator.state.topic.num.partitions": "3"}
    )
    broker.start()
    yield broker
    broker.kill()


@pytest.mark.parametrize(
    "mode", ["auto", pytest.param("sync", marks=pytest.mark.slow), pytest.param("async", marks=pytest.mark.slow)]
)
def test_two_members_share_what_was_produced(broker: PybrokerProcess, mode: str) -> None:
    programs: list[Program] = []
    try:
        topic, group = create_topic(broker.bootstrap, 3), unique("verifiable")
        at = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
        shared = [*at, "--group-id", group, "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"]
        members = [Program("VerifiableShareConsumer", *shared, "--verbose") for _ in range(2)]
        producer = Program("VerifiableProducer", *at, "--max-messages", str(RECORDS))
        programs = [*members, producer]
        producer.ends()
        assert len(producer.told("producer_send_success")) == RECORDS, producer.lines[-5:]

        def acknowledged() -> list[dict[str, Any]]:
            return [event for member in members for event in member.told("offsets_acknowledged")]

        until(lambda: sum(event["count"] for event in acknowledged()) >= RECORDS, "all are acknowledged")
        for member in members:
            member.process.terminate()
            member.ends()
            assert member.told("shutdown_complete"), member.lines[-5:]
        assert all(event["success"] for event in acknowledged())
        seen = Counter(
            (event["partition"], event["offset"]) for member in members for event in member.told("record_data")
        )
        assert seen == Counter((partition, offset) for partition, offset in seen)
        assert len(seen) == RECORDS
    finally:
        for program in programs:
            program.process.kill()
