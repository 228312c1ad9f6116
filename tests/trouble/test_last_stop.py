"""A start reports that the broker had ended unexpectedly, and reports nothing after a clean stop."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups.requests import join
from tests.topic_ids.kit import batch, create, fetch_request
from tests.topic_ids.lives import Lives, until
from tests.wire.client import WireClient

RECORDS = 50


def group_state(port: int, group: str) -> str:
    with WireClient(port) as client:
        (described,) = client.call(m.DescribeGroupsRequest(groups=[group]), 5).groups
    return str(described.group_state)


def produce_request(topic: str, records: bytes) -> m.ProduceRequest:
    data = m.ProduceRequest_PartitionProduceData(index=0, records=records)
    row = m.ProduceRequest_TopicProduceData(name=topic, partition_data=[data])
    return m.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[row])


def test_a_start_after_an_unclean_stop_says_so(start_broker: StartBroker, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker({"log.dirs": f"{first},{second}"})

    def told() -> list[str]:
        lines = broker.console.read_text().splitlines()
        return [line.partition("] ")[2] for line in lines if "clean stop" in line]

    assert told() == [], "new directories"
    broker.restart()
    assert told() == []
    broker.restart(crash=True)
    expected = [
        f"INFO {directory} was not closed by a clean stop; checking its logs from their recovery points "
        "(pybroker.broker.lifecycle.app)"
        for directory in (first, second)
    ]
    until(lambda: told() == expected)
    broker.restart()
    assert len(told()) == 2, "a clean stop again"


@pytest.mark.checklist("R24")
def test_a_clean_stop_finishes_what_was_accepted(start_broker: StartBroker) -> None:
    """Without the stop nothing would be on disk (`log.flush.mode=os`). Parked requests get a response: a JoinGroup in
    the group's initial delay, and a Fetch that waits for records."""
    broker = start_broker({"log.flush.mode": "os", "group.initial.rebalance.delay.ms": "600000"})
    with (
        WireClient(broker.port) as member,
        WireClient(broker.port) as reader,
        WireClient(broker.port) as writer,
    ):
        create(writer, "t")
        Lives(broker.port).coordinator("g")
        known = member.call(join("g"), 9).member_id
        member.send(join("g", known), 9)
        reader.send(fetch_request(("t", 0, 0), max_wait_ms=600_000, min_bytes=1 << 30), 12)
        until(lambda: group_state(broker.port, "g") == "PreparingRebalance")
        for number in range(RECORDS):
            writer.send(produce_request("t", batch(b"%d" % number)), 12)
        answers = [writer.receive()]
        broker.stop()
        with suppress(ConnectionError):
            # The stop need not read what is still in the socket.
            while len(answers) < RECORDS:
                answers.append(writer.receive())
        assert member.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        ((fetched,),) = [row.partitions for row in reader.receive().responses]
        assert fetched.error_code == 0
    for answer in answers:
        assert answer.responses[0].partition_responses[0].error_code == 0
    assert (broker.data_dir / ".kafka_cleanshutdown").is_file()
    checkpoint = (broker.data_dir / "recovery-point-offset-checkpoint").read_text()
    broker.start()
    found = Lives(broker.port).read("t")
    assert found == [str(number) for number in range(len(found))]
    assert len(found) >= len(answers)
    assert f"t 0 {len(found)}" in checkpoint.splitlines(), "everything is on disk"
