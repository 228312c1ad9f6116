"""Deletion without topic ids (`inter.broker.protocol.version` below 2.8): a request in `/admin/delete_topics`, and a
name that stays in use until every replica has answered (KIP-516, garbage collection in the old format)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pybroker.broker.metadata import znodes
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.crash.child import TOPIC
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.kit import metadata
from tests.topic_ids.lives import Lives, until
from tests.topic_ids.stopped import nodes_below, put, topic_node
from tests.topic_ids.without_ids import OLD, VERSION, hidden_ids, shown_ids
from tests.trouble.traffic import create, missing, read, send
from tests.wire.client import WireClient

RECORDS = [b"record %04d" % number for number in range(100)]


def delete(broker: BrokerProcess, name: str, timeout_ms: int = 30_000) -> int:
    with WireClient(broker.port) as client:
        request = m.DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms)
        return int(client.call(request, 5).responses[0].error_code)


def try_create(broker: BrokerProcess, name: str, partitions: int = 1) -> int:
    topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(broker.port) as client:
        request = m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        return int(client.call(request, 6).topics[0].error_code)


def seen(broker: BrokerProcess, name: str) -> int:
    with WireClient(broker.port) as client:
        return int(metadata(client, 9, name).topics[0].error_code)


def orders(broker: BrokerProcess) -> set[str]:
    start = len(znodes.OLD_DELETE_TOPICS) + 1
    return {path[start:] for path in nodes_below(broker.data_dir, znodes.OLD_DELETE_TOPICS)}


def no_trace(broker: BrokerProcess, name: str) -> bool:
    """Check that no topic in a stopped broker's store has the name."""
    nodes = nodes_below(broker.data_dir, znodes.TOPICS) | nodes_below(broker.data_dir, "/config/topics")
    taken = [path for path in nodes if name in path]
    return not taken and name not in orders(broker) and name not in hidden_ids(broker)


@pytest.mark.checklist(116, 118, 120, "D6")
def test_a_name_is_free_when_the_answer_comes(start_broker: StartBroker) -> None:
    broker = start_broker(OLD)
    for life in range(5):
        create(broker, "again", 2)
        sent = send(broker, "again", 1, RECORDS[life:])
        assert read(broker, "again", 1) == sent.acknowledged, "nothing of an earlier life"
        assert delete(broker, "again") == 0
        assert seen(broker, "again") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(broker, "again") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.stop()
    assert no_trace(broker, "again")


@pytest.mark.checklist(115, 116, 118, 120)
@pytest.mark.parametrize("raised", [False, True])
def test_the_name_stays_taken_until_the_replicas_have_answered(start_broker: StartBroker, raised: bool) -> None:
    broker = start_broker(OLD)
    create(broker, "slow", 2)
    create(broker, "other", 1)
    send(broker, "slow", 0, RECORDS)
    kept = send(broker, "other", 0, RECORDS).acknowledged
    obstacle = broker.data_dir / "deleting"
    obstacle.write_text("no directory can be made here")
    assert delete(broker, "slow", timeout_ms=200) == ErrorCode.REQUEST_TIMED_OUT
    until(lambda: seen(broker, "slow") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the order is written")
    assert try_create(broker, "slow") == ErrorCode.TOPIC_ALREADY_EXISTS
    broker.stop()
    assert orders(broker) == {"slow"}
    assert topic_node(broker.data_dir, "slow")["version"] == 2
    obstacle.unlink()
    if raised:  # the deletion was ordered before the version was raised, and is finished after it
        del broker.settings[VERSION]
    broker.start()
    until(lambda: try_create(broker, "slow", 3) == 0, "the replicas have answered")
    assert read(broker, "slow", 0) == {}
    assert not missing(kept, read(broker, "other", 0))
    if raised:
        lives = Lives(broker.port)
        (deletion,) = lives.deletions()
        assert lives.undelete(deletion.topic_id, "back").error_code == 0
        assert lives.read("back") == [record.decode() for record in RECORDS]
    broker.stop()
    assert orders(broker) == set()
    assert len(topic_node(broker.data_dir, "slow")["partitions"]) == 3
    if raised:
        assert len(set(shown_ids(broker, "slow", "other", "back").values())) == 3


@pytest.mark.checklist(115, 116, 120)
def test_an_order_that_was_there_before_is_carried_out_by_the_start(start_broker: StartBroker) -> None:
    broker = start_broker(OLD)
    create(broker, "ordered", 2)
    create(broker, "kept", 1)
    broker.stop()
    put(broker.data_dir, {znodes.old_deletion_path(name): b"" for name in ("ordered", "long-gone")})
    broker.start()
    assert seen(broker, "ordered") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert try_create(broker, "ordered", 3) == 0, "before clients are served"
    assert seen(broker, "kept") == 0
    broker.stop()
    assert orders(broker) == set()
    assert len(topic_node(broker.data_dir, "ordered")["partitions"]) == 3


STEPS = [
    "before delete is stored",
    "after delete is stored",
    "before stop_partitions",
    "after stop_partitions",
    "before staged is stored",
    "after staged is stored",
]


@pytest.mark.checklist(115, 118, 120, "A1")
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_every_step(start_broker: StartBroker, step: str) -> None:
    broker = start_broker(OLD)
    create(broker, TOPIC, 2)
    kept = send(broker, TOPIC, 0, RECORDS).acknowledged
    broker.stop()
    port = free_port()
    command = [sys.executable, "-m", "tests.crash.child", str(broker.data_dir), str(port), step, f"{VERSION}=2.7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        request = m.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=30_000)
        with WireClient(port) as client:
            client.send(request, 5)
            assert child.wait(120) == -9
    broker.start()
    if step == "before delete is stored":
        assert read(broker, TOPIC, 0) == kept
        assert delete(broker, TOPIC) == 0
    else:
        assert seen(broker, TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    until(lambda: try_create(broker, TOPIC) == 0, "the name is free")
    assert read(broker, TOPIC, 0) == {}
    broker.stop()
    assert orders(broker) == set()
    assert hidden_ids(broker)[TOPIC] != Uuid.ZERO
