"""A controller from before topic ids was asked to delete topics (`/admin/delete_topics/[topic]`) and did not finish.
The first start of this broker finishes the deletions, before it serves clients (KIP-516, garbage collection in the old
format)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pybroker.broker.metadata import znodes
from pybroker.native import Uuid
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.lives import Lives, until
from tests.topic_ids.stopped import before_ids, nodes_below, put, topic_ids
from tests.trouble.traffic import create, missing, read, send

DOOMED = "crashing"
"""The topic that `tests.crash.child` watches."""
RECORDS = [b"record %04d" % number for number in range(100)]
UNKNOWN_TOPIC_OR_PARTITION = 3


def order(broker: BrokerProcess, *names: str) -> None:
    """Write the order: DeleteTopics leaves an empty node for each name in the store of an old controller."""
    put(broker.data_dir, {znodes.old_deletion_path(name): b"" for name in names})


def orders(broker: BrokerProcess) -> set[str]:
    start = len(znodes.OLD_DELETE_TOPICS) + 1
    return {path[start:] for path in nodes_below(broker.data_dir, znodes.OLD_DELETE_TOPICS)}


@pytest.mark.checklist(115, 116, 120, "X18", "D6")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_deletion_ordered_before_is_finished_and_nothing_else(start_broker: StartBroker, version: int) -> None:
    broker = start_broker()
    lives = Lives(broker.port)
    create(broker, DOOMED, 2)
    create(broker, "kept", 1)
    send(broker, DOOMED, 0, RECORDS)
    kept = send(broker, "kept", 0, RECORDS).acknowledged
    lives.coordinator("readers")
    for name in (DOOMED, "kept"):
        assert lives.commit("readers", name, 7) == 0
    broker.stop()
    if version < 3:
        before_ids(broker, version, DOOMED, "kept")
    order(broker, DOOMED, "long-gone")
    broker.start()

    lives = Lives(broker.port)
    assert lives.metadata(DOOMED).error_code == UNKNOWN_TOPIC_OR_PARTITION
    (deletion,) = lives.deletions()
    assert deletion.name == DOOMED
    assert f"an earlier controller had ordered name={DOOMED} id={deletion.topic_id}" in broker.console.read_text()
    assert not missing(kept, read(broker, "kept", 0))
    lives.coordinator("readers")
    if version == 3:  # what this broker has committed is of the id that the other two have lost
        assert lives.committed("readers", "kept") == 7
    successor = lives.create(DOOMED, 2)
    assert successor != deletion.topic_id
    assert lives.read(DOOMED) == []
    assert lives.committed("readers", DOOMED) == -1
    assert lives.undelete(deletion.topic_id, "back").error_code == 0
    assert lives.read("back") == [record.decode() for record in RECORDS]
    assert lives.committed("readers", "back") == (7 if version == 3 else -1)

    broker.stop()
    assert orders(broker) == set()
    broker.start()
    assert topic_ids(broker, DOOMED, "back") == {DOOMED: successor, "back": deletion.topic_id}, "ordered once only"


@pytest.mark.checklist(115, 120, 212)
@pytest.mark.parametrize(
    "step", [f"{when} {what} is stored" for what in ("grow", "delete") for when in ("before", "after")]
)
def test_a_crash_while_it_is_finished(start_broker: StartBroker, step: str) -> None:
    """`grow` is the child's command that rewrites a topic node: here with its id."""
    broker = start_broker()
    create(broker, DOOMED, 2)
    send(broker, DOOMED, 1, RECORDS)
    broker.stop()
    before_ids(broker, 2, DOOMED)
    order(broker, DOOMED)
    command = [sys.executable, "-m", "tests.crash.child", str(broker.data_dir), str(free_port()), step]
    assert subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False).returncode == -9
    broker.start()
    lives = Lives(broker.port)
    assert topic_ids(broker, DOOMED) == {DOOMED: Uuid.ZERO}
    (deletion,) = lives.deletions()
    until(lambda: lives.deletions()[0].state == "staged", "every replica has staged its data")
    assert lives.undelete(deletion.topic_id).error_code == 0
    assert lives.read(DOOMED, partition=1) == [record.decode() for record in RECORDS]
    broker.stop()
    assert orders(broker) == set()


@pytest.mark.checklist(116)
def test_without_permission_to_delete_the_orders_are_dropped(start_broker: StartBroker) -> None:
    broker = start_broker({"delete.topic.enable": "false"})
    create(broker, DOOMED, 1)
    kept = send(broker, DOOMED, 0, RECORDS).acknowledged
    broker.stop()
    order(broker, DOOMED, "long-gone")
    broker.start()
    assert not missing(kept, read(broker, DOOMED, 0))
    assert f"because delete.topic.enable is false topics={DOOMED}" in broker.console.read_text()
    broker.stop()
    assert orders(broker) == set()


@pytest.mark.checklist(116, "A22")
def test_a_damaged_topic_keeps_its_order_until_it_can_be_read(start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, DOOMED, 1)
    broker.stop()
    whole = nodes_below(broker.data_dir, znodes.TOPICS)[znodes.topic_path(DOOMED)]
    put(broker.data_dir, {znodes.topic_path(DOOMED): b"{"})
    order(broker, DOOMED)
    broker.start()
    broker.stop()
    assert orders(broker) == {DOOMED}
    put(broker.data_dir, {znodes.topic_path(DOOMED): whole})
    broker.start()
    assert [one.name for one in Lives(broker.port).deletions()] == [DOOMED]
    broker.stop()
    assert orders(broker) == set()
