"""AlterReplicaLogDirs (KIP-113): a partition moves between directories while clients write and read it. After a crash
at any step, exactly one of the two copies exists."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pybroker.native import Uuid
from pybroker.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequest_AlterReplicaLogDir,
    AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.conftest import StartBroker
from tests.ingest.client import COMMITTED, Attempt, IngestClient
from tests.support.brokers import BrokerProcess
from tests.support.delivered import offset_and_value
from tests.support.java import compiled, java_command
from tests.support.kafka_tools import run_tool
from tests.support.maven import CLIENTS, jars
from tests.topic_ids.lives import Lives
from tests.topic_ids.stopped import topic_ids
from tests.trouble.traffic import create, missing, read, send
from tests.wire.client import WireClient

PATIENCE_S = 120.0
RECORDS = [b"record %04d " % number * 50 for number in range(300)]


def wait_for(what: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < give_up, "it does not happen"
        time.sleep(0.02)


@pytest.fixture
def jbod(start_broker: StartBroker, tmp_path: Path) -> tuple[BrokerProcess, Path, Path]:
    one, two = tmp_path / "one", tmp_path / "two"
    return start_broker({"log.dirs": f"{one},{two}"}), one, two


Jbod = tuple[BrokerProcess, Path, Path]


def move(broker: BrokerProcess, topic: str, partition: int, to: Path) -> int:
    wanted = AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDirsRequest_AlterReplicaLogDir(path=str(to), topics=[wanted])]
    )
    with WireClient(broker.port) as client:
        answer = client.call(request, 2)
    return int(answer.results[0].partitions[0].error_code)


def place(broker: BrokerProcess, topic: str, partition: int = 0) -> list[tuple[str, bool]]:
    """Return the directories that have the partition, each with whether its copy is still incomplete."""
    with WireClient(broker.port) as client:
        answer = client.call(DescribeLogDirsRequest(topics=None), 4)
    return [
        (Path(directory.log_dir).name, one.is_future_key)
        for directory in answer.results
        for found in directory.topics
        if found.name == topic
        for one in found.partitions
        if one.partition_index == partition
    ]


def other(jbod: Jbod, topic: str) -> tuple[Path, Path]:
    """Return the log directory that has the partition, and the other one."""
    _, one, two = jbod
    return (one, two) if (one / f"{topic}-0").is_dir() else (two, one)


@pytest.mark.checklist(135)
def test_a_partition_moves_under_load(jbod: Jbod) -> None:
    broker, _, _ = jbod
    create(broker, "busy", segment_bytes=1 << 20)
    ids = topic_ids(broker, "busy")
    sent: dict[int, bytes] = {}
    refused: list[str] = []
    stop = threading.Event()
    written = threading.Event()

    def delivered(problem: KafkaError | None, message: Message) -> None:
        if problem is not None:
            refused.append(str(problem))
        else:
            offset, value = offset_and_value(message)
            sent[offset] = value

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
        number = 0
        while not stop.is_set():
            producer.produce("busy", b"%012d" % number * 100, partition=0, on_delivery=delivered)
            producer.poll(0)
            number += 1
            if number % 100 == 0:
                producer.flush(PATIENCE_S)
        producer.flush(PATIENCE_S)

    seen: list[int] = []

    def follow() -> None:
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
        )
        consumer.assign([TopicPartition("busy", 0, 0)])
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up and not (written.is_set() and len(seen) == len(sent)):
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                assert message.offset() == len(seen), "skipped or repeated"
                seen.append(1)
                give_up = time.monotonic() + PATIENCE_S  # continue as long as there is progress
        consumer.close()

    def have_come(count: int) -> bool:
        return len(sent) > count

    def lies_in(directory: Path) -> bool:
        return place(broker, "busy") == [(directory.name, False)]

    def is_empty(directory: Path) -> bool:
        return not list(directory.glob("busy-0*"))

    threads = [threading.Thread(target=work) for work in (write, follow)]
    for thread in threads:
        thread.start()
    wait_for(partial(have_come, 3000))
    for _ in range(4):
        at, to = other(jbod, "busy")
        before = len(sent)
        assert move(broker, "busy", 0, to) == 0
        wait_for(partial(lies_in, to))
        wait_for(partial(have_come, before + 300))
        assert (to / "busy-0" / "partition.metadata").read_text().endswith(str(ids["busy"]))
        wait_for(partial(is_empty, at))
    stop.set()
    threads[0].join()
    written.set()  # set it only now: callbacks count records in flight in `sent`
    threads[1].join()
    assert not refused
    assert len(seen) == len(sent)
    broker.restart(crash=True)
    assert topic_ids(broker, "busy") == ids
    assert not missing(sent, read(broker, "busy", 0))
    assert "bug" not in broker.console.read_text()


@pytest.mark.checklist(135)
def test_what_cannot_be_moved_says_why(jbod: Jbod) -> None:
    broker, one, _ = jbod
    create(broker, "t")
    at, _ = other(jbod, "t")
    assert move(broker, "t", 0, at) == 0  # the partition is already in that directory
    assert move(broker, "t", 0, Path("/no/such/dir")) == 57  # LOG_DIR_NOT_FOUND
    assert move(broker, "nothing", 0, one) == 3
    assert move(broker, "t", 7, one) == 3  # as in Kafka, there is no such partition
    assert place(broker, "t") == [(at.name, False)]


@pytest.mark.checklist(135)
def test_a_topic_that_moves_can_be_deleted(jbod: Jbod) -> None:
    broker, one, two = jbod
    create(broker, "t")
    send(broker, "t", 0, RECORDS)
    _, to = other(jbod, "t")
    assert move(broker, "t", 0, to) == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["t"])["t"].result(PATIENCE_S)
    wait_for(lambda: not [path for root in (one, two) for path in root.glob("t-0*")])
    wait_for(lambda: len([path for root in (one, two) for path in (root / "deleting").glob("*")]) == 1)


@pytest.mark.checklist(135)
def test_a_partition_with_staged_records_stays_until_they_are_attached(jbod: Jbod) -> None:
    """Links do not reach another disk: the move is cancelled with a log line, and the commit finds its files."""
    broker, _, _ = jbod
    create(broker, "t")
    at, to = other(jbod, "t")
    with IngestClient(broker.port) as client:
        topic_id = topic_ids(broker, "t")["t"]
        epoch, attempt = client.begin(topic_id, "job").epoch, Attempt(0)
        client.append(topic_id, "job", epoch, attempt, 0, ["a", "b"])
        assert move(broker, "t", 0, to) == 0
        wait_for(lambda: "to another log directory: " in broker.console.read_text())
        wait_for(lambda: place(broker, "t") == [(at.name, False)])
        wait_for(lambda: not list(to.glob("t-0*")))
        assert client.commit(topic_id, "job", epoch, [attempt]).state == COMMITTED
        assert [value for _, value in client.read(topic_id, 0)] == ["a", "b"]
        # The files of a commit are removed later; until then the partition stays.
        wait_for(lambda: move(broker, "t", 0, to) == 0 and place(broker, "t") == [(to.name, False)])
        assert [value for _, value in client.read(topic_id, 0)] == ["a", "b"]


STEPS = ("copying", "marked", "renamed", "renamed and gone")


@pytest.mark.checklist(135, "A7", "C13")
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_in_a_move_leaves_one_partition(jbod: Jbod, step: str) -> None:
    """The test creates by hand the states between the durable steps of a move."""
    broker, _, _ = jbod
    create(broker, "t")
    kept = send(broker, "t", 0, RECORDS).acknowledged
    broker.stop()
    at, to = other(jbod, "t")
    future = to / f"t-0.{Uuid.random().hex}-future"
    shutil.copytree(at / "t-0", future)
    if step == "copying":
        (future / f"{0:020}.log").write_bytes(b"")
    else:
        (at / "t-0" / "moved").write_text(f"version: 0\nto: {to / 't-0'}\n")
    if step.startswith("renamed"):
        future.rename(to / "t-0")
    if step == "renamed and gone":
        (at / "t-0").rename(at / f"t-0.{Uuid.random().hex}-delete")
    broker.start()
    final = at if step == "copying" else to
    assert place(broker, "t") == [(final.name, False)]
    assert not missing(kept, read(broker, "t", 0))
    assert not send(broker, "t", 0, RECORDS[:1]).refused
    assert sorted(path.name for root in (at, to) for path in root.glob("t-0*")) == ["t-0"]


@pytest.mark.checklist("A7", "C12")
def test_a_move_whose_target_is_gone_serves_nothing_or_the_original(jbod: Jbod) -> None:
    broker, _, _ = jbod
    create(broker, "t")
    kept = send(broker, "t", 0, RECORDS).acknowledged
    broker.stop()
    at, to = other(jbod, "t")
    note = at / "t-0" / "moved"
    note.write_text(f"version: 0\nto: {to.parent / 'three' / 't-0'}\n")
    broker.start()
    assert send(broker, "t", 0, RECORDS[:1], **{"message.timeout.ms": 1000}).refused, "it may lie elsewhere"
    broker.stop()
    assert "which cannot be reached" in broker.console.read_text()
    note.write_text(f"version: 0\nto: {to / 't-0'}\n")  # that directory is this one, and has no copy
    broker.start()
    assert not missing(kept, read(broker, "t", 0))
    assert not note.exists()


@pytest.mark.checklist(135)
def test_kafkas_admin_client_and_tool(jbod: Jbod) -> None:
    broker, _, _ = jbod
    create(broker, "t")
    kept = send(broker, "t", 0, RECORDS).acknowledged
    _, to = other(jbod, "t")
    class_path = compiled(Path(__file__).parent / "java" / "MoveReplica.java", jars(CLIENTS))
    done = subprocess.run(
        java_command(class_path, "MoveReplica", [broker.bootstrap, "t", "0", "1", str(to)]),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=True,
    )
    assert done.stdout.split() == [str(to), "null"]
    shown = run_tool("kafka-log-dirs", ["--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", "t"])
    directories = json.loads(shown[shown.index("{") :])["brokers"][0]["logDirs"]
    held = {one["logDir"]: [p["partition"] for p in one["partitions"]] for one in directories}
    assert held[str(to)] == ["t-0"]
    assert sum(map(len, held.values())) == 1
    assert not missing(kept, read(broker, "t", 0))


@pytest.mark.checklist("C11", "C12", "D35")
def test_a_directory_that_is_gone_takes_only_its_partitions(jbod: Jbod) -> None:
    broker, one, two = jbod
    create(broker, "t", 4)
    kept = {p: send(broker, "t", p, RECORDS[:20]).acknowledged for p in range(4)}
    gone = {p for p in range(4) if (two / f"t-{p}").is_dir()}
    assert gone
    assert len(gone) < 4
    broker.stop()
    two.rename(two.with_name("unmounted"))
    two.write_text("no directory")
    broker.start()
    for p in range(4):
        if p in gone:
            assert send(broker, "t", p, RECORDS[:1], **{"message.timeout.ms": 1000}).refused
        else:
            assert not missing(kept[p], read(broker, "t", p))
            assert not send(broker, "t", p, RECORDS[:1]).refused
    assert not {p for p in gone if (one / f"t-{p}").exists()}, "not made anew elsewhere (KAFKA-16234)"
    broker.stop()
    two.unlink()
    two.with_name("unmounted").rename(two)
    broker.start()
    for p in range(4):
        assert not missing(kept[p], read(broker, "t", p))
        assert not send(broker, "t", p, RECORDS[:1]).refused


@pytest.mark.checklist("C12", "U3", "U4")
def test_what_is_deleted_while_its_directory_is_gone_can_come_back(jbod: Jbod) -> None:
    """A broker that cannot see the data does not confirm that it is staged: the deletion waits for the directory."""
    broker, one, two = jbod
    create(broker, "t", 2)
    kept = {p: send(broker, "t", p, RECORDS[:20]).acknowledged for p in range(2)}
    assert sorted([len(list(one.glob("t-*"))), len(list(two.glob("t-*")))]) == [1, 1]
    broker.stop()
    two.rename(two.with_name("unmounted"))
    two.write_text("no directory")
    broker.start()
    lives = Lives(broker.port)
    topic_id = lives.metadata("t").topic_id
    assert lives.delete("t").error_code == 0
    other_id = lives.create("t")
    assert other_id != topic_id, "the name is free at once all the same"
    broker.restart()
    (waiting,) = lives.deletions()
    assert (waiting.topic_id, waiting.state) == (topic_id, "deleting")
    assert "removed" not in {part.state for part in waiting.partitions}
    refused = lives.undelete(topic_id, "back")
    assert (refused.error_code, refused.name) == (56, None), refused
    assert lives.deletions()[0].state == "deleting"
    broker.stop()
    two.unlink()
    two.with_name("unmounted").rename(two)
    broker.start()
    wait_for(lambda: lives.deletions()[0].state == "staged")
    assert lives.undelete(topic_id, "back").error_code == 0
    for p in range(2):
        assert not missing(kept[p], read(broker, "back", p))
    assert lives.read("t") == []


def test_kafkas_tool_moves_logs(jbod: Jbod, tmp_path: Path) -> None:
    """kafka-reassign-partitions moves them. It also requests reassignments, although all replicas stay on their
    brokers."""
    broker, _, _ = jbod
    create(broker, "moves")
    _, there = other(jbod, "moves")
    plan = tmp_path / "plan.json"
    moves = [{"topic": "moves", "partition": 0, "replicas": [1], "log_dirs": [str(there)]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool = ["--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(plan)]
    said = run_tool("kafka-reassign-partitions", [*tool, "--execute"])
    assert f"{there} for replica moves-0 with broker 1" in said
    wait_for(lambda: place(broker, "moves") == [(there.name, False)])
