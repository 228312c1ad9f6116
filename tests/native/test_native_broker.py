"""The native core without Python's control plane: directories, orders, metadata, sockets, a clean stop and the next
start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pybroker.native import (
    Completion,
    ListenerConfig,
    ListenerError,
    LogDirError,
    NativeBroker,
    NativeError,
    StopOrder,
    Uuid,
    build_batch,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.native.harness import (
    BROKER_ID,
    Client,
    Setting,
    completion_of,
    listening,
    native,
    order,
    publish,
)

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_ID, NOT_LEADER, INCONSISTENT_TOPIC_ID = 0, 1, 100, 6, 103


def produce(
    client: Client, topic_id: Uuid, values: list[bytes], acks: int = -1, partition: int = 0
) -> m.ProduceResponse:
    batch = build_batch([(None, value) for value in values], int(time.time() * 1000))
    data = m.ProduceRequest_PartitionProduceData(index=partition, records=batch)
    topic = m.ProduceRequest_TopicProduceData(topic_id=topic_id, partition_data=[data])
    response: m.ProduceResponse = client.call(
        m.ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic]), PRODUCE, 13
    )
    return response


def fetch(
    client: Client, topic_id: Uuid, offset: int, wait_ms: int = 0, partition: int = 0
) -> m.FetchResponse_PartitionData:
    wanted = m.FetchRequest_FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = m.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[m.FetchRequest_FetchTopic(topic_id=topic_id, partitions=[wanted])],
    )
    response: m.FetchResponse = client.call(request, FETCH, 16)
    assert response.error_code == NONE
    return response.responses[0].partitions[0]


@pytest.mark.parametrize("mode", ["commit", "os"])
def test_produce_fetch_and_restart(tmp_path: Path, mode: str) -> None:
    topic_id = Uuid.random()
    settings: dict[str, Setting] = {"log.flush.mode": mode}
    with native([tmp_path], settings, listen=False) as broker:
        port = listening(broker)
        assert broker.partitions.apply([order(topic_id)]) == [NONE]
        publish(broker, port, topic_id, "t", 1)
        client = Client(port)
        listed = client.call(m.MetadataRequest(topics=None), METADATA, 12)
        assert [(topic.name, topic.topic_id) for topic in listed.topics] == [("t", topic_id)]
        for expected, values in enumerate([[b"a"], [b"b"]]):
            answer = produce(client, topic_id, values).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (NONE, expected)
        got = fetch(client, topic_id, 0)
        assert (got.error_code, got.high_watermark) == (NONE, 2)
        assert got.records is not None
        assert b"a" in got.records
        assert b"b" in got.records
        assert fetch(client, topic_id, 3).error_code == OFFSET_OUT_OF_RANGE
        client.close()
        offsets = broker.partitions.offsets(topic_id, 0)
        assert offsets is not None
        assert (offsets.high_watermark, offsets.log_end_offset, offsets.leader_epoch) == (2, 2, 0)

    broker = NativeBroker(
        broker_id=BROKER_ID, cluster_id="replica-tests-cluster", log_dirs=[str(tmp_path)], settings=settings
    )
    [local] = broker.log_dirs.start()
    assert (local.topic, local.partition, local.topic_id, local.problem) == ("t", 0, topic_id, None)
    port = listening(broker)
    assert broker.partitions.apply([order(topic_id, epoch=1, is_new=False)]) == [NONE]
    publish(broker, port, topic_id, "t", 1, epoch=1)
    client = Client(port)
    got = fetch(client, topic_id, 0)
    assert (got.error_code, got.high_watermark) == (NONE, 2)
    answer = produce(client, topic_id, [b"c"]).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (NONE, 2)
    read = broker.partitions.read_records(topic_id, 0, 0, 1 << 20)
    assert [(record.offset, record.value) for record in read.records] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert read.next_offset == 3
    at_the_end = broker.partitions.read_records(topic_id, 0, 3, 1 << 20)
    assert (at_the_end.records, at_the_end.next_offset) == ([], 3)
    client.close()
    broker.shutdown(20_000)
    broker.shutdown(20_000)


def test_a_waiting_fetch_is_woken_by_a_produce(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:
        port = listening(broker)
        broker.partitions.apply([order(topic_id)])
        publish(broker, port, topic_id, "t", 1)
        waiting, producing = Client(port), Client(port)
        wanted = m.FetchRequest_FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        waiting.send(
            m.FetchRequest(
                max_wait_ms=60_000,
                min_bytes=1,
                topics=[m.FetchRequest_FetchTopic(topic_id=topic_id, partitions=[wanted])],
            ),
            16,
        )
        produce(producing, topic_id, [b"woken"])
        got = waiting.receive(FETCH, 16).responses[0].partitions[0]
        assert b"woken" in got.records
        waiting.close()
        producing.close()


def test_appends_of_the_control_plane_complete_by_drain(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:
        broker.partitions.apply([order(topic_id)])
        token = broker.partitions.append(topic_id, 0, [(b"k", b"v"), (b"k2", None)], 1_000)
        done = completion_of(broker, token)
        assert (done.error_code, done.base_offset) == (NONE, 0)
        read = broker.partitions.read_records(topic_id, 0, 0, 1 << 20)
        found = [(record.offset, record.timestamp_ms, record.key, record.value) for record in read.records]
        assert found == [(0, 1_000, b"k", b"v"), (1, 1_000, b"k2", None)]
        assert read.next_offset == 2
        absent = broker.partitions.append(Uuid.random(), 0, [(None, b"v")], 1_000)
        assert completion_of(broker, absent).error_code == NOT_LEADER
        with pytest.raises(ValueError, match="at least one record"):
            broker.partitions.append(topic_id, 0, [], 1_000)
        with pytest.raises(NativeError) as failure:
            broker.partitions.read_records(Uuid.random(), 0, 0, 1)
        assert failure.value.code == NOT_LEADER


def test_what_waits_for_nothing_ends_with_the_append(tmp_path: Path) -> None:
    topic_id, records = Uuid.random(), [(b"k", b"v")]
    (tmp_path / "os").mkdir()
    (tmp_path / "commit").mkdir()
    with native([tmp_path / "os"], {"log.flush.mode": "os"}, listen=False) as broker:
        broker.partitions.apply([order(topic_id, epoch=3)])
        done = broker.partitions.append(topic_id, 0, records, 1_000, 3, at_once=True)
        assert isinstance(done, Completion)
        assert (done.error_code, done.base_offset) == (NONE, 0)
        fenced = broker.partitions.append(topic_id, 0, records, 1_000, 2, at_once=True)
        assert isinstance(fenced, Completion)
        assert (fenced.error_code, fenced.base_offset) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
        assert not [item for item in broker.control_queue.drain() if isinstance(item, Completion)]
    with native([tmp_path / "commit"], listen=False) as broker:
        broker.partitions.apply([order(topic_id)])
        token = broker.partitions.append(topic_id, 0, records, 1_000, -1, at_once=True)
        assert isinstance(token, int), "it waits for the disk"
        assert completion_of(broker, token).error_code == NONE


def test_a_coordinator_writes_under_the_epoch_that_it_has_loaded_only(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:

        def append(leader_epoch: int) -> int:
            token = broker.partitions.append(topic_id, 0, [(b"k", b"v")], 1_000, leader_epoch)
            return completion_of(broker, token).error_code

        broker.partitions.apply([order(topic_id, epoch=3)])
        assert append(3) == NONE
        broker.partitions.apply([order(topic_id, epoch=4, is_new=False)])
        assert append(3) == ErrorCode.FENCED_LEADER_EPOCH
        assert append(5) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert append(4) == NONE
        offsets = broker.partitions.offsets(topic_id, 0)
        assert offsets is not None
        assert offsets.log_end_offset == 2, "what was refused is not in the log"


@pytest.mark.checklist(79, 81, "X10", "X11", "D8")
def test_deletion_stages_the_directory_and_purge_removes_it(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:
        broker.partitions.apply([order(topic_id)])
        broker.partitions.append(topic_id, 0, [(None, b"v")], 1_000)
        stop = StopOrder(topic_id, 0, -2, True)
        assert broker.partitions.stop([stop]) == [NONE]
        assert broker.partitions.stop([stop]) == [NONE], "again is harmless"
        assert not (tmp_path / "t-0").exists()
        assert broker.partitions.offsets(topic_id, 0) is None
        [staged] = broker.log_dirs.staged()
        assert (staged.topic_id, staged.partition, staged.directory) == (topic_id, 0, "t-0")
        assert Path(staged.path).name == f"{topic_id.hex}_0"
        assert staged.deadline_ms is not None
        assert broker.log_dirs.purge(staged.path) > 0
        assert broker.log_dirs.staged() == []
        with pytest.raises(ValueError, match="not a staged directory"):
            broker.log_dirs.purge(str(tmp_path / "t-0"))


@pytest.mark.checklist(71, 72, 74, 127, "R10")
def test_a_successor_replaces_an_older_incarnation_only_with_a_higher_epoch(tmp_path: Path) -> None:
    first, second = Uuid.random(), Uuid.random()
    with native([tmp_path], listen=False) as broker:
        assert broker.partitions.apply([order(first, epoch=4)]) == [NONE]
        assert broker.partitions.apply([order(second, epoch=4)]) == [INCONSISTENT_TOPIC_ID]
        assert broker.partitions.offsets(first, 0) is not None
        assert broker.partitions.apply([order(second, epoch=5)]) == [NONE]
        assert broker.partitions.offsets(first, 0) is None
        assert [staged.topic_id for staged in broker.log_dirs.staged()] == [first]
    third = Uuid.random()
    with native([tmp_path], listen=False) as broker:  # the older replica is on disk, but not hosted now
        assert broker.partitions.apply([order(third, epoch=5)]) == [INCONSISTENT_TOPIC_ID]
        assert broker.partitions.apply([order(third, epoch=6)]) == [NONE]
        assert {staged.topic_id for staged in broker.log_dirs.staged()} == {first, second}


def test_a_directory_in_use_or_of_another_cluster_is_refused(tmp_path: Path) -> None:
    def attempt(cluster_id: str) -> str:
        other = NativeBroker(broker_id=BROKER_ID, cluster_id=cluster_id, log_dirs=[str(tmp_path)], settings={})
        with pytest.raises(LogDirError) as refused:
            other.log_dirs.start()
        return str(refused.value)

    with native([tmp_path], listen=False):
        assert "in use by another broker" in attempt("replica-tests-cluster")
    assert "belongs to cluster replica-tests-cluster" in attempt("another")


def test_a_port_in_use_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with native([tmp_path / "a"], listen=False) as broker:
        port = listening(broker)
        with native([tmp_path / "b"], listen=False) as other, pytest.raises(ListenerError, match="in use"):
            other.listeners.open([ListenerConfig("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT", False)])


def test_settings_of_a_wrong_kind_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"log\.flush\.mode=sometimes"):
        NativeBroker(broker_id=1, cluster_id="c", log_dirs=[str(tmp_path)], settings={"log.flush.mode": "sometimes"})
    with pytest.raises(ValueError, match=r"max\.connections=many"):
        NativeBroker(broker_id=1, cluster_id="c", log_dirs=[str(tmp_path)], settings={"max.connections": "many"})
    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:
        with pytest.raises(ValueError, match=r"retention\.ms=soon"):
            broker.partitions.apply([order(topic_id, config={"retention.ms": "soon"})])
        broker.partitions.apply([order(topic_id)])
        with pytest.raises(ValueError, match=r"segment\.bytes=-1"):
            broker.partitions.set_topic_config(topic_id, {"segment.bytes": "-1"})
