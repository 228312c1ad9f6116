"""`cordoned.log.dirs` (KIP-1066): these directories get no new partitions; existing ones are served."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from pybroker.protocol.messages import DescribeLogDirsRequest
from tests.configs.test_live import BROKER, DELETE, LIMIT_S, SET, alter, broker_id
from tests.conftest import StartBroker
from tests.log_dirs.test_moves import move, place
from tests.support.brokers import BrokerProcess
from tests.trouble.traffic import read, send
from tests.wire.client import WireClient

NAME = "cordoned.log.dirs"
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG = 38, 39, 40


def create(admin: AdminClient, name: str, partitions: int) -> int:
    """Create a topic; return the error code."""
    return code(lambda: admin.create_topics([NewTopic(name, partitions, 1)])[name].result(LIMIT_S))


def code(work: object) -> int:
    try:
        work()  # type: ignore[operator]  # a function without arguments
    except KafkaException as problem:
        return int(problem.args[0].code())
    return 0


def cordoned(broker: BrokerProcess) -> set[str]:
    with WireClient(broker.port) as client:
        answer = client.call(DescribeLogDirsRequest(topics=None), 5)
    return {Path(each.log_dir).name for each in answer.results if each.is_cordoned}


def partitions_in(directory: Path) -> int:
    return sum(1 for _ in directory.glob("*/partition.metadata"))


def test_new_partitions_go_elsewhere(start_broker: StartBroker, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    broker = start_broker({"log.dirs": f"{one},{two}", NAME: str(one)})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    number = broker_id(admin)
    assert cordoned(broker) == {"one"}
    assert create(admin, "a", 4) == 0
    assert (partitions_in(one), partitions_in(two)) == (0, 4)
    assert move(broker, "a", 0, one) == INVALID_REPLICA_ASSIGNMENT
    assert move(broker, "a", 0, two) == 0, "it is there"
    # All directories are cordoned: no new partitions, and existing ones continue.
    for value in ("*", f"{one},{two}"):
        assert alter(admin, BROKER, number, (NAME, SET, value)) == 0
        assert cordoned(broker) == {"one", "two"}
        assert create(admin, "b", 1) == INVALID_REPLICATION_FACTOR
        more = admin.create_partitions([NewPartitions("a", 5)])["a"]
        assert code(lambda more=more: more.result(LIMIT_S)) == INVALID_REPLICATION_FACTOR
    assert not send(broker, "a", 0, [b"goes on"]).refused
    broker.restart()
    assert create(admin, "b", 1) == INVALID_REPLICATION_FACTOR
    assert alter(admin, BROKER, number, (NAME, SET, "")) == 0
    assert cordoned(broker) == set()
    assert create(admin, "b", 2) == 0
    assert partitions_in(one) == 2
    assert list(read(broker, "a", 0).values()) == [b"goes on"]
    assert place(broker, "a") == [("two", False)]
    assert alter(admin, BROKER, number, (NAME, DELETE, None)) == 0
    assert cordoned(broker) == {"one"}, "as the file says"


@pytest.mark.parametrize("value", ["/elsewhere", "*,/elsewhere", "/elsewhere,/elsewhere"])
def test_other_directories_are_refused(value: str, broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    assert alter(admin, BROKER, broker_id(admin), (NAME, SET, value)) in (INVALID_CONFIG, 42)
