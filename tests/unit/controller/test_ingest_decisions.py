"""Staged ingests: one multi decides a commit, epochs fence old clients, and the store's nodes load as the same
image."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from pybroker.broker.cluster.events import BeginIngest, CommitIngest, DropIngests, FinishIngest
from pybroker.broker.controller.decision import Decision
from pybroker.broker.controller.ingest_decisions import (
    EPOCH_MAX,
    decide_begin_ingest,
    decide_commit_ingest,
    decide_drop_ingests,
    decide_finish_ingest,
)
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.ingest_records import (
    COMMITTED,
    COMMITTING,
    OPEN,
    IngestKey,
    IngestRecord,
    decode_ingest,
    ingest_paths,
    topic_paths,
)
from pybroker.broker.metadata.metadata_store import VALUE_BYTES_MAX, Create, Delete, Node, Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster, created, deleted


def topic_cluster() -> tuple[ClusterImage, Uuid]:
    image = created(cluster(1), "t")
    return image, image.topics["t"].topic_id


def begin(key: IngestKey, *, join: bool = False, open_max: int = 10, committed_max: int = 10) -> BeginIngest:
    return BeginIngest(key, 1000, join, {"max.message.bytes": "1"}, 50, open_max, committed_max, 7)


def opened(image: ClusterImage, key: IngestKey) -> ClusterImage:
    return image.apply(decide_begin_ingest(image, begin(key)).delta)


def committed(image: ClusterImage, key: IngestKey) -> ClusterImage:
    epoch = image.ingests[key].epoch
    image = image.apply(decide_commit_ingest(image, CommitIngest(key, epoch, {0: (3, 99)}, 60)).delta)
    return image.apply(decide_finish_ingest(image, FinishIngest(key, {0: (10, 13)})).delta)


def refusal(decide: Callable[[], Decision]) -> int:
    with pytest.raises(KafkaError) as caught:
        decide()
    return caught.value.code


def test_a_commit_is_one_multi() -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    image = opened(image, key)
    record = image.ingests[key]
    assert (record.state, record.epoch) == (OPEN, 7)
    decision = decide_commit_ingest(image, CommitIngest(key, 7, {0: (3, 99), 2: (1, 70)}, 60))
    assert [type(operation) for operation in decision.operations] == [Delete, Create, Create]
    assert [one.path for one in decision.operations] == [record.path, decision.reply.folder, decision.reply.path]
    after = image.apply(decision.delta)
    assert after.ingests == {}
    decided = after.commit_of(key)
    assert decided == decision.reply
    assert decided is not None
    assert decided.state == COMMITTING
    again = decide_commit_ingest(after, CommitIngest(key, 1, {}, 70))
    assert (again.operations, again.reply) == ((), decided)
    finish = decide_finish_ingest(after, FinishIngest(key, {0: (10, 13), 2: (0, 1)}))
    assert [type(operation) for operation in finish.operations] == [Set]
    done: IngestRecord = finish.reply
    assert done.state == COMMITTED
    assert {index: (part.base_offset, part.end_offset) for index, part in done.partitions.items()} == {
        0: (10, 13),
        2: (0, 1),
    }
    repeated = decide_finish_ingest(after.apply(finish.delta), FinishIngest(key, {0: (99, 99), 2: (99, 99)}))
    assert (repeated.operations, repeated.reply) == ((), done)
    assert decide_begin_ingest(after.apply(finish.delta), begin(key)).reply == done


def test_epochs_fence() -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    image = opened(image, key)
    assert decide_begin_ingest(image, begin(key, join=True)).operations == ()
    decision = decide_begin_ingest(image, begin(key))
    assert [type(operation) for operation in decision.operations] == [Set]
    image = image.apply(decision.delta)
    assert image.ingests[key].epoch == 8
    fenced = refusal(lambda: decide_commit_ingest(image, CommitIngest(key, 7, {}, 60)))
    assert fenced == ErrorCode.PRODUCER_FENCED
    last = msgspec.structs.replace(image.ingests[key], epoch=EPOCH_MAX)
    wrapped = msgspec.structs.replace(image, ingests={key: last})
    assert decide_begin_ingest(wrapped, begin(key)).reply.epoch == 1
    kept = decide_drop_ingests(image, DropIngests(open=((key, 7),)))
    assert kept.operations == (), "began anew since"
    dropped = decide_drop_ingests(image, DropIngests(open=((key, 8),)))
    assert image.apply(dropped.delta).ingests == {}


def test_what_is_refused() -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    unknown = (Uuid.random(), "job", -1)
    assert refusal(lambda: decide_begin_ingest(image, begin(unknown))) == ErrorCode.UNKNOWN_TOPIC_ID
    full = opened(image, (topic_id, "other", -1))
    throttled = refusal(lambda: decide_begin_ingest(full, begin(key, open_max=1)))
    assert throttled == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    missing = refusal(lambda: decide_commit_ingest(image, CommitIngest(key, 7, {}, 60)))
    assert missing == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    gone = deleted(opened(image, key), "t")
    late = refusal(lambda: decide_commit_ingest(gone, CommitIngest(key, 7, {0: (1, 1)}, 60)))
    assert late == ErrorCode.UNKNOWN_TOPIC_ID


def test_what_is_remembered_has_a_limit() -> None:
    image, topic_id = topic_cluster()
    for name, batch_id in (("job", -1), ("query", 3)):
        image = committed(opened(image, (topic_id, name, batch_id)), (topic_id, name, batch_id))
    throttled = refusal(lambda: decide_begin_ingest(image, begin((topic_id, "other", -1), committed_max=2)))
    assert throttled == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    again = decide_begin_ingest(image, begin((topic_id, "job", -1), committed_max=2))
    assert again.reply.state == COMMITTED
    following = decide_begin_ingest(image, begin((topic_id, "query", 4), committed_max=2))
    assert following.reply.state == OPEN, "a stream takes no more room"
    full = opened(image, (topic_id, "other", -1))
    throttled = refusal(lambda: decide_begin_ingest(full, begin((topic_id, "third", -1), committed_max=3)))
    assert throttled == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_what_is_decided_can_be_finished() -> None:
    """The record grows from the begin to the finish. At its largest it must still fit into one value of the store."""
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)

    def with_settings(size: int) -> BeginIngest:
        return msgspec.structs.replace(begin(key), config={"max.message.bytes": "1", "long": "x" * size})

    room = VALUE_BYTES_MAX - len(decide_begin_ingest(image, with_settings(0)).reply.encode())
    # The largest size with which the begin is accepted leaves room for one partition, but not for two hundred.
    refused = [size for size in range(room - 400, room) if not accepted(image, with_settings(size))]
    assert refused
    assert refused == list(range(refused[0], room))
    with pytest.raises(KafkaError, match="may take 1048576 bytes in the metadata store") as caught:
        decide_begin_ingest(image, with_settings(room))
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    image = image.apply(decide_begin_ingest(image, with_settings(refused[0] - 1)).delta)
    many = dict.fromkeys(range(200), (2**63 - 1, 2**63 - 1))
    with pytest.raises(KafkaError, match="settings and 200 partitions it could take") as caught:
        decide_commit_ingest(image, CommitIngest(key, 7, many, 60))
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    one = {2**31 - 1: (2**63 - 1, 2**63 - 1)}
    decision = decide_commit_ingest(image, CommitIngest(key, 7, one, 2**63 - 1))
    assert len(decision.reply.encode()) <= VALUE_BYTES_MAX
    finish = decide_finish_ingest(
        image.apply(decision.delta), FinishIngest(key, dict.fromkeys(one, (2**62, 2**63 - 1)))
    )
    assert len(finish.reply.encode()) <= VALUE_BYTES_MAX


def test_a_commit_to_ten_thousand_partitions_has_room() -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    image = opened(image, key)
    terabytes = CommitIngest(key, 7, dict.fromkeys(range(10_000), (10**9, 10**12)), 60)
    record = decide_commit_ingest(image, terabytes).reply
    assert decode_ingest(record.path, record.encode()) == record


def test_partitions_as_earlier_builds_wrote_them_are_read() -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    record = committed(opened(image, key), key).committed_ingests[topic_id, "job", False]
    now = record.encode()
    before = now.replace(b"[3,99,10,13]", b'{"rows":3,"bytes":99,"base_offset":10,"end_offset":13}')
    assert before != now
    assert decode_ingest(record.path, before) == decode_ingest(record.path, now) == record


def accepted(image: ClusterImage, event: BeginIngest) -> bool:
    try:
        decide_begin_ingest(image, event)
    except KafkaError:
        return False
    return True


def test_a_commit_that_an_earlier_build_decided_without_room_is_finished() -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    image = opened(image, key)
    record = decide_commit_ingest(image, CommitIngest(key, 7, {0: (3, 99)}, 60)).reply
    room = VALUE_BYTES_MAX - len(record.encode()) - len(',"long":""')
    full = msgspec.structs.replace(record, config={**record.config, "long": "x" * room})
    assert len(full.encode()) == VALUE_BYTES_MAX
    image = msgspec.structs.replace(image, ingests={}, committed_ingests={full.series: full})
    done = decide_finish_ingest(image, FinishIngest(key, {0: (10, 13)})).reply
    assert len(done.encode()) < 1000
    assert done.config == {"max.message.bytes": "1"}, "what IngestBegin answers"


@pytest.mark.parametrize(
    ("config", "append_time"),
    [
        ({"message.timestamp.type": "LogAppendTime"}, True),
        ({"message.timestamp.type": "CreateTime"}, False),
        ({}, False),
    ],
)
def test_a_record_says_whether_its_commit_stamps(config: dict[str, str], append_time: bool) -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    image = image.apply(decide_begin_ingest(image, msgspec.structs.replace(begin(key), config=config)).delta)
    record = decide_commit_ingest(image, CommitIngest(key, 7, {0: (1, 9)}, 60)).reply
    assert decode_ingest(record.path, record.encode()).append_time is append_time


@pytest.mark.parametrize("state", ["open", "committed"])
def test_an_id_whose_record_is_damaged_is_not_used(state: str) -> None:
    image, topic_id = topic_cluster()
    key = (topic_id, "job", -1)
    record = decide_begin_ingest(image, begin(key)).reply
    path = record.path if state == "open" else msgspec.structs.replace(record, state=COMMITTED).path
    damaged = msgspec.structs.replace(image, damaged_ingests=frozenset([path]))
    assert refusal(lambda: decide_begin_ingest(damaged, begin(key))) == ErrorCode.KAFKA_STORAGE_ERROR
    other = decide_begin_ingest(damaged, begin((topic_id, "other", -1)))
    assert damaged.apply(other.delta).damaged_ingests == {path}


def test_a_stream_whose_last_commit_is_damaged_commits_nothing() -> None:
    """It is unknown which batches were committed, so an open batch is not committed either."""
    image, topic_id = topic_cluster()
    key = (topic_id, "query", 1)
    image = opened(image, key)
    _, path = ingest_paths(key)
    damaged = msgspec.structs.replace(image, damaged_ingests=frozenset([path]))
    for join in (True, False):
        code = refusal(partial(decide_begin_ingest, damaged, begin(key, join=join)))
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match=path) as caught:
        decide_commit_ingest(damaged, CommitIngest(key, 7, {0: (1, 1)}, 60))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert decide_drop_ingests(damaged, DropIngests(open=((key, 7),))).reply == [image.ingests[key]], (
        "it can be aborted"
    )


def test_a_stream_is_remembered_by_its_last_batch() -> None:
    image, topic_id = topic_cluster()
    for number in (3, 8):
        image = committed(opened(image, (topic_id, "query", number)), (topic_id, "query", number))
    assert len(image.committed_ingests) == 1
    for number in (0, 3, 8):
        assert decide_begin_ingest(image, begin((topic_id, "query", number))).reply.batch_id == 8
    nine, ten = (topic_id, "query", 9), (topic_id, "query", 10)
    image = opened(opened(image, nine), ten)
    image = image.apply(decide_commit_ingest(image, CommitIngest(nine, 7, {0: (1, 1)}, 60)).delta)
    busy = refusal(lambda: decide_commit_ingest(image, CommitIngest(ten, 7, {0: (1, 1)}, 60)))
    assert busy == ErrorCode.CONCURRENT_TRANSACTIONS
    stale = decide_drop_ingests(image, DropIngests(committed=(((topic_id, "query", True), 8),)))
    assert stale.operations == (), "a later batch has come"


def test_the_nodes_above_the_records_come_and_go_with_the_topic() -> None:
    image, topic_id = topic_cluster()
    one, two = (topic_id, "one", -1), (topic_id, "two", -1)
    open_folder, committed_folder = topic_paths(topic_id)
    first = decide_begin_ingest(image, begin(one))
    assert [type(operation) for operation in first.operations] == [Create, Create]
    image = image.apply(first.delta)
    assert set(image.ingest_folders) == {open_folder}
    assert len(decide_begin_ingest(image, begin(two)).operations) == 1
    image = committed(opened(image, two), two)
    assert set(image.ingest_folders) == {open_folder, committed_folder}

    ids = (topic_id,)
    everything = DropIngests(open=((one, 7),), committed=(((topic_id, "two", False), -1),), topics=ids)
    ended = DropIngests(open=((one, 7),), topics=ids)
    assert len(decide_drop_ingests(image, everything).operations) == 2, "the topic lives"
    waiting = deleted(image, "t")
    waits = decide_drop_ingests(waiting, ended)
    assert [operation.path for operation in waits.operations] == [image.ingests[one].path], "it can come back"
    dead = msgspec.structs.replace(waiting, deletions={})
    assert [one.path for one in decide_drop_ingests(dead, everything).operations][2:] == [open_folder, committed_folder]
    assert dead.apply(decide_drop_ingests(dead, everything).delta).ingest_folders == {}
    assert [one.path for one in decide_drop_ingests(dead, ended).operations][1:] == [open_folder]
    damaged = msgspec.structs.replace(dead, damaged_ingests=frozenset([f"{open_folder}/x"]))
    assert len(decide_drop_ingests(damaged, ended).operations) == 1, "not empty"


def test_the_nodes_give_the_same_image() -> None:
    image, topic_id = topic_cluster()
    keys = [(topic_id, "a/b ü", -1), (topic_id, "query", 4), (topic_id, "query", -1)]
    nodes: dict[str, Node] = {}
    for key in keys:
        decision = decide_begin_ingest(image, begin(key))
        image = image.apply(decision.delta)
    image = committed(image, keys[1])
    for record in (*image.ingests.values(), *image.committed_ingests.values()):
        nodes[record.path] = Node(record.encode(), 0, 0, 0, 0, 0)
    damaged = {f"/ingest/open/{topic_id}/x": Node(b"{", 0, 0, 0, 0, 0)}
    nodes |= {path: Node(b"", 0, 0, 0, 0, 0) for path in topic_paths(topic_id)}
    loaded = load_image(1, Nodes({}, {}, {}, ingest={**nodes, **damaged, "/ingest/open": Node(b"", 0, 0, 0, 0, 0)}))
    assert loaded.image.ingests == image.ingests
    assert loaded.image.committed_ingests == image.committed_ingests
    assert loaded.image.ingest_folders == image.ingest_folders == dict.fromkeys(topic_paths(topic_id), topic_id)
    assert loaded.image.damaged_ingests == set(damaged)
