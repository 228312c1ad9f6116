"""Begin, append, commit, abort, list: their responses, and the topic's records afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pybroker
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import DeleteTopicsRequest, DeleteTopicsRequest_DeleteTopicState
from tests.ingest.client import ABSENT, BROKER, COMMITTED, OPEN, Attempt, IngestClient, batch


@pytest.fixture(scope="module")
def broker() -> Iterator[pybroker.Broker]:
    settings = {"log.segment.bytes": 1048576, "ingest.ttl.ms": 3_600_000}
    with pybroker.Broker(settings) as broker:
        yield broker


@pytest.fixture
def client(broker: pybroker.Broker) -> Iterator[IngestClient]:
    with IngestClient(broker.port) as client:
        yield client


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def values(client: IngestClient, topic_id: Uuid, partitions: int = 3) -> list[list[str]]:
    return [[value for _, value in client.read(topic_id, index)] for index in range(partitions)]


def staged(client: IngestClient, topic_id: Uuid, name: str, epoch: int, writers: int = 3) -> list[Attempt]:
    """Return writers with two batches for each of two partitions."""
    attempts = [Attempt(writer, 7 * writer) for writer in range(writers)]
    for part in range(2):
        for attempt in attempts:
            for partition in (0, 2):
                texts = [f"{attempt.writer}/{part}/{i}" for i in range(5)]
                client.append(topic_id, name, epoch, attempt, partition, texts)
    return attempts


EXPECTED = [f"{writer}/{part}/{i}" for writer in range(3) for part in range(2) for i in range(5)]


@pytest.mark.checklist("A1")
def test_a_commit_brings_everything_in_the_order_of_writers(client: IngestClient) -> None:
    topic_id = client.create("whole")
    begun = client.begin(topic_id, "job")
    assert (begun.error_code, begun.state, begun.topic_name) == (0, OPEN, "whole")
    assert begun.compression_type == "producer"
    assert begun.max_message_bytes == 1048588
    assert begun.ttl_ms == 3_600_000
    assert [part.partition for part in begun.partitions] == [0, 1, 2]
    attempts = staged(client, topic_id, "job", begun.epoch)
    # A failed attempt is staged, but is never listed.
    client.append(topic_id, "job", begun.epoch, Attempt(1, 99), 0, ["never"])
    assert values(client, topic_id) == [[], [], []]
    [listed] = client.listing(ingest_id="job")
    assert (listed.state, listed.rows, listed.writers, listed.topic_name) == (OPEN, 61, 4, "whole")
    # The writers may be listed in any order: their numbers determine the order of their records.
    done = client.commit(topic_id, "job", begun.epoch, reversed(attempts))
    assert (done.error_code, done.state, done.repeated) == (0, COMMITTED, False)
    assert [(p.partition, p.base_offset, p.end_offset) for p in done.partitions] == [(0, 0, 30), (2, 0, 30)]
    assert values(client, topic_id) == [EXPECTED, [], EXPECTED]
    again = client.commit(topic_id, "job", begun.epoch, [])
    assert (again.error_code, again.state, again.repeated) == (0, COMMITTED, True)
    assert again.partitions == done.partitions
    assert client.abort(topic_id, "job").state == COMMITTED
    assert values(client, topic_id) == [EXPECTED, [], EXPECTED]
    late = client.append_raw(topic_id, "job", begun.epoch, Attempt(5), [(0, 0, batch(["late"]))])
    assert late.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    reopened = client.begin(topic_id, "job")
    assert (reopened.error_code, reopened.state) == (0, COMMITTED)
    assert [(p.partition, p.base_offset, p.end_offset) for p in reopened.committed] == [(0, 0, 30), (2, 0, 30)]
    [remembered] = client.listing(committed=True, ingest_id="job")
    assert (remembered.state, remembered.rows) == (COMMITTED, 60)
    assert client.listing(ingest_id="job") == []


def test_appends_are_idempotent_by_sequence(client: IngestClient) -> None:
    topic_id = client.create("sequences")
    epoch = client.begin(topic_id, "s").epoch
    attempt = Attempt(0, 1 << 60)
    one, two = batch(["a", "b"]), batch(["c"])

    def append(sequence: int, data: bytes) -> tuple[int, int]:
        answer = client.append_raw(topic_id, "s", epoch, attempt, [(0, sequence, data)])
        assert answer.error_code == 0
        return answer.partitions[0].error_code, answer.partitions[0].next_sequence

    assert append(0, one) == (0, 2)
    assert append(0, one) == (0, 2), "a repeated request"
    assert append(0, one + two) == (0, 3), "repeated with more behind it"
    assert append(5, one) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 3)
    assert append(2, one) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 3), "overlaps what is there"
    assert append(-1, one)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    attempt.add(0, one, 2)
    attempt.add(0, two, 1)
    assert client.commit(topic_id, "s", epoch, [attempt]).error_code == 0
    assert values(client, topic_id)[0] == ["a", "b", "c"]


def test_what_is_listed_must_be_what_is_staged(client: IngestClient) -> None:
    topic_id = client.create("lists")
    epoch = client.begin(topic_id, "l").epoch
    attempt = Attempt(0)
    client.append(topic_id, "l", epoch, attempt, 0, ["a", "b"])

    def refused(change: Callable[[Attempt], None]) -> str:
        wrong = Attempt(0)
        wrong.rows, wrong.bytes, wrong.crcs = dict(attempt.rows), dict(attempt.bytes), dict(attempt.crcs)
        change(wrong)
        answer = client.commit(topic_id, "l", epoch, [wrong])
        assert (answer.error_code, answer.state) == (ErrorCode.INVALID_REQUEST, OPEN)
        return str(answer.error_message)

    assert "3 records" in refused(lambda a: a.rows.update({0: 3}))
    assert "bytes" in refused(lambda a: a.bytes.update({0: 1}))
    assert "checksum" in refused(lambda a: a.crcs.update({0: b"abcd"}))
    assert "attempt 4" in refused(lambda a: setattr(a, "attempt", 4))

    def other_partition(wrong: Attempt) -> None:
        wrong.add(1, batch(["x"]), 1)

    assert "partition 1" in refused(other_partition)
    twice = client.commit(topic_id, "l", epoch, [attempt, attempt])
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert values(client, topic_id) == [[], [], []]
    client.append(topic_id, "l", epoch, attempt, 0, ["c"])
    assert client.commit(topic_id, "l", epoch, [attempt]).error_code == 0
    assert values(client, topic_id)[0] == ["a", "b", "c"]


def test_abort_and_begin_anew(client: IngestClient) -> None:
    topic_id = client.create("aborts")
    first = client.begin(topic_id, "a").epoch
    attempt = Attempt(0)
    client.append(topic_id, "a", first, attempt, 0, ["old"])
    assert client.begin(topic_id, "a", join=True).epoch == first
    second = client.begin(topic_id, "a").epoch
    assert second > first
    fenced = client.append_raw(topic_id, "a", first, attempt, [(0, 0, batch(["x"]))])
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED
    assert client.commit(topic_id, "a", first, [attempt]).error_code == ErrorCode.PRODUCER_FENCED
    # The records that the first epoch staged are gone.
    assert client.commit(topic_id, "a", second, [attempt]).error_code == ErrorCode.INVALID_REQUEST
    assert client.abort(topic_id, "a", first).error_code == ErrorCode.PRODUCER_FENCED
    answer = client.abort(topic_id, "a", second)
    assert (answer.error_code, answer.state) == (0, ABSENT)
    assert client.abort(topic_id, "a").state == ABSENT
    assert client.listing(ingest_id="a") == []
    gone = client.commit(topic_id, "a", second, [])
    assert gone.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    third = client.begin(topic_id, "a").epoch
    assert third not in (first, second), "late appends of an aborted life must not fit"
    assert values(client, topic_id) == [[], [], []]


def test_a_stream_remembers_its_highest_batch(client: IngestClient) -> None:
    topic_id = client.create("stream", 1)
    for number in (0, 1, 5):
        epoch = client.begin(topic_id, "query", batch_id=number, join=True).epoch
        assert client.begin(topic_id, "query", batch_id=number, join=True).epoch == epoch
        attempt = Attempt(0, number)
        client.append(topic_id, "query", epoch, attempt, 0, [f"b{number}"], batch_id=number)
        done = client.commit(topic_id, "query", epoch, [attempt], batch_id=number)
        assert (done.error_code, done.state) == (0, COMMITTED)
        again = client.commit(topic_id, "query", epoch, [attempt], batch_id=number)
        assert (again.error_code, again.repeated, again.partitions) == (0, True, done.partitions)
    for number in (0, 4, 5):
        repeated = client.begin(topic_id, "query", batch_id=number, join=True)
        assert repeated.state == COMMITTED
        assert bool(repeated.committed) == (number == 5)
    assert client.begin(topic_id, "query", batch_id=6, join=True).state == OPEN
    empty = client.commit(
        topic_id, "query", client.begin(topic_id, "query", batch_id=6, join=True).epoch, [], batch_id=6
    )
    assert (empty.error_code, empty.state, empty.partitions) == (0, COMMITTED, [])
    assert client.begin(topic_id, "query").state == OPEN, "the name without a batch is another ingest"
    assert values(client, topic_id, 1) == [["b0", "b1", "b5"]]


def test_what_is_refused(client: IngestClient) -> None:
    topic_id = client.create("refusals")
    assert client.begin(topic_id, "x", cluster_id="other").error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert client.begin(Uuid.random(), "x").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.begin(Uuid.ZERO, "x").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.begin(topic_id, "").error_code == ErrorCode.INVALID_REQUEST
    assert client.begin(topic_id, "x" * 250).error_code == ErrorCode.INVALID_REQUEST
    assert client.begin(topic_id, "x", batch_id=-2).error_code == ErrorCode.INVALID_REQUEST
    epoch = client.begin(topic_id, "x").epoch
    wrong = client.commit(topic_id, "x", epoch, [], cluster_id="other")
    assert wrong.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID

    def part(partition: int, data: bytes | None) -> int:
        answer = client.append_raw(topic_id, "x", epoch, Attempt(0), [(partition, 0, data)])
        assert answer.error_code == 0
        return int(answer.partitions[0].error_code)

    good = batch(["fine"])
    assert part(9, good) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert part(0, None) == ErrorCode.INVALID_RECORD
    assert part(0, b"") == ErrorCode.INVALID_RECORD
    assert part(0, good[:-1]) == ErrorCode.CORRUPT_MESSAGE
    assert part(0, good[:30] + b"\xff" + good[31:]) == ErrorCode.CORRUPT_MESSAGE
    assert part(0, batch(["x" * 1_100_000])) == ErrorCode.MESSAGE_TOO_LARGE
    unknown = client.append_raw(Uuid.random(), "x", epoch, Attempt(0), [(0, 0, good)])
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    never = client.append_raw(topic_id, "y", epoch, Attempt(0), [(0, 0, good)])
    assert never.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert client.abort(topic_id, "x").error_code == 0


def test_the_rules_are_those_of_the_begin(client: IngestClient) -> None:
    compacted = client.create("keys", 1, {"cleanup.policy": "compact"})
    begun = client.begin(compacted, "k")
    assert begun.keys_required
    keyless = client.append_raw(compacted, "k", begun.epoch, Attempt(0), [(0, 0, batch(["v"], key=None))])
    assert keyless.partitions[0].error_code == ErrorCode.INVALID_RECORD
    packed = client.create("packed", 1, {"compression.type": "lz4"})
    begun = client.begin(packed, "c")
    assert begun.compression_type == "lz4"
    plain = client.append_raw(packed, "c", begun.epoch, Attempt(0), [(0, 0, batch(["v"]))])
    assert plain.partitions[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    stamped = client.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    begun = client.begin(stamped, "t")
    assert begun.timestamp_type == 1
    attempt = Attempt(0)
    client.append(stamped, "t", begun.epoch, attempt, 0, ["a", "b"])
    assert client.commit(stamped, "t", begun.epoch, [attempt]).error_code == 0
    assert values(client, stamped, 1) == [["a", "b"]]


@pytest.mark.checklist("A9")
def test_a_topic_that_is_created_again_gets_nothing_of_the_old_job(
    broker: pybroker.Broker, client: IngestClient
) -> None:
    first = client.create("again", 1)
    begun = client.begin(first, "job")
    attempt = Attempt(0)
    client.append(first, "job", begun.epoch, attempt, 0, ["old"])
    other = client.begin(first, "committed")
    assert client.commit(first, "committed", other.epoch, []).error_code == 0
    assert list((broker.data_dir / "ingest" / first.hex).iterdir())
    wanted = DeleteTopicsRequest_DeleteTopicState(name=None, topic_id=first)
    assert client.call(DeleteTopicsRequest(topics=[wanted], timeout_ms=30_000), 6).responses[0].error_code == 0
    second = client.create("again", 1)
    late = client.append_raw(first, "job", begun.epoch, attempt, [(0, 1, batch(["late"]))])
    assert late.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.commit(first, "job", begun.epoch, [attempt]).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.abort(first, "job").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.begin(second, "job").state == OPEN
    until(lambda: not (broker.data_dir / "ingest" / first.hex).exists())
    assert values(client, second, 1) == [[]]
    assert all(one.topic_id != first for one in client.listing(committed=True))


def test_of_commits_that_race_one_decides(broker: pybroker.Broker, client: IngestClient) -> None:
    topic_id = client.create("race", 1)
    epoch = client.begin(topic_id, "r").epoch
    one, two = Attempt(0, 1), Attempt(0, 2)
    client.append(topic_id, "r", epoch, one, 0, ["one"])
    client.append(topic_id, "r", epoch, two, 0, ["two"])
    clients = [IngestClient(broker.port) for _ in range(6)]
    for index, racer in enumerate(clients):
        racer.send(racer.commit_request(topic_id, "r", epoch, [(one, two)[index % 2]]))
    answers = [racer.receive() for racer in clients]
    for racer in clients:
        racer.close()
    assert [answer.error_code for answer in answers] == [0] * 6
    assert sum(not answer.repeated for answer in answers) == 1
    assert {(answer.partitions[0].base_offset, answer.partitions[0].end_offset) for answer in answers} == {(0, 1)}
    assert values(client, topic_id, 1) in ([["one"]], [["two"]])


def test_ingests_expire_and_ids_are_forgotten(broker: pybroker.Broker, client: IngestClient) -> None:
    topic_id = client.create("expiry", 1)
    begun = client.begin(topic_id, "short", ttl_ms=5_000)
    assert begun.ttl_ms == 5_000
    client.append(topic_id, "short", begun.epoch, Attempt(0), 0, ["x"])
    assert client.begin(topic_id, "long", ttl_ms=3_600_000).state == OPEN
    until(lambda: [one.ingest_id for one in client.listing() if one.topic_id == topic_id] == ["long"])
    told = f"ingest expired without an append ingest='short' topic=expiry (id {topic_id}) ttl_ms=5000"
    until(lambda: told in broker.log_path.read_text())
    gone = client.append_raw(topic_id, "short", begun.epoch, Attempt(0), [(0, 1, batch(["y"]))])
    assert gone.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    until(lambda: len(list((broker.data_dir / "ingest" / topic_id.hex).glob("*"))) == 0)
    with pybroker.Broker({"ingest.id.retention.ms": 300}) as forgetful, IngestClient(forgetful.port) as other:
        topic_id = other.create("t", 1)
        assert other.commit(topic_id, "i", other.begin(topic_id, "i").epoch, []).state == COMMITTED
        until(lambda: other.begin(topic_id, "i", join=True).state == OPEN)


def test_limits() -> None:
    settings = {
        "ingest.staged.bytes.max": 3000,
        "ingest.open.max": 2,
        "ingest.ttl.max.ms": 60_000,
        "ingest.quota.bytes.per.second": 50,
    }
    with pybroker.Broker(settings) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        begun = client.begin(topic_id, "a", ttl_ms=10**12)
        assert begun.ttl_ms == 60_000
        client.begin(topic_id, "b")
        assert client.begin(topic_id, "c").error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        attempt = Attempt(0)
        data = batch(["x" * 2000])
        first = client.append_raw(topic_id, "a", begun.epoch, attempt, [(0, 0, data)])
        assert first.error_code == 0
        assert first.throttle_time_ms > 30_000
        early = client.append_raw(topic_id, "a", begun.epoch, attempt, [(0, 1, batch(["y"]))])
        assert early.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 0 < early.throttle_time_ms <= 42_000
        assert "ingest.quota.bytes.per.second" in early.error_message
        full = client.append_raw(topic_id, "a", begun.epoch, attempt, [(0, 1, data)])
        assert full.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "ingest.staged.bytes.max" in full.error_message
        assert client.abort(topic_id, "a").state == ABSENT
        assert client.listing(ingest_id="a") == []


def test_a_commit_names_a_partition_that_is_not_there(client: IngestClient) -> None:
    topic_id = client.create("few", 2)
    epoch = client.begin(topic_id, "job").epoch
    attempt = Attempt(0)
    client.append(topic_id, "job", epoch, attempt, 1, ["x"])
    for partition in (2, 99, -1):
        wrong = Attempt(1)
        wrong.rows[partition] = wrong.bytes[partition] = 0
        wrong.crcs[partition] = b""
        refused = client.commit(topic_id, "job", epoch, [attempt, wrong])
        assert (refused.error_code, refused.state) == (ErrorCode.INVALID_REQUEST, OPEN), refused
        assert refused.error_message == f"the topic has no partition {partition}", refused
    assert client.commit(topic_id, "job", epoch, [attempt]).state == COMMITTED


def test_a_raised_quota_holds_at_once_and_one_append_is_waited_for_a_minute() -> None:
    quota = "ingest.quota.bytes.per.second"
    with pybroker.Broker({quota: 100}) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        first, other = (client.begin(topic_id, name).epoch for name in ("first", "other"))
        large = client.append_raw(topic_id, "first", first, Attempt(0), [(0, 0, batch(["v" * 900_000]))])
        assert (large.error_code, large.partitions[0].next_sequence) == (0, 1)
        assert large.throttle_time_ms == 60_000
        early = client.append_raw(topic_id, "other", other, Attempt(0), [(0, 0, batch(["x"]))])
        assert early.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert early.throttle_time_ms <= 59_000
        client.alter("", {quota: "1000000000"}, BROKER)
        at_once = client.append_raw(topic_id, "other", other, Attempt(0), [(0, 0, batch(["x"]))])
        assert (at_once.error_code, at_once.throttle_time_ms) == (0, 0)


def test_a_record_that_the_store_could_not_take_is_refused_before_anything_is_decided() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 50)

        def set_long(entries: int) -> None:
            client.alter("t", {"leader.replication.throttled.replicas": ",".join(["0:1"] * entries)})

        entries = 262_000
        set_long(entries)
        refused = client.begin(topic_id, "job")
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        found = re.search(r"may take 1048576 bytes .* 1 partition it could take (\d+)\.", refused.error_message)
        assert found is not None, refused.error_message
        set_long(entries - (int(found[1]) - 1_048_576) // 4 - 1)
        begun = client.begin(topic_id, "job")
        assert (begun.error_code, begun.state) == (0, OPEN)
        attempt, small = Attempt(0), Attempt(1)
        for partition in range(50):
            client.append(topic_id, "job", begun.epoch, attempt, partition, ["x"])
        client.append(topic_id, "job", begun.epoch, small, 7, ["y"])
        refused = client.commit(topic_id, "job", begun.epoch, [attempt])
        assert (refused.error_code, refused.state) == (ErrorCode.INVALID_REQUEST, 0)
        assert "settings and 50 partitions it could take" in refused.error_message
        assert values(client, topic_id, 50) == [[]] * 50
        # Nothing was decided: the ingest is still open, and a smaller commit fits.
        answer = client.commit(topic_id, "job", begun.epoch, [small])
        assert (answer.error_code, answer.state) == (0, COMMITTED)
        assert values(client, topic_id, 50)[7] == ["y"]
        again = client.begin(topic_id, "job")
        assert (again.state, again.max_message_bytes) == (COMMITTED, begun.max_message_bytes)


def test_beside_producers_a_load_keeps_to_its_share_and_alone_it_does_not() -> None:
    with (
        pybroker.Broker({"ingest.quota.shared.bytes.per.second": 100_000}) as broker,
        IngestClient(broker.port) as client,
        IngestClient(broker.port) as other,
    ):
        bulk, small = client.create("bulk", 1), client.create("small", 1)
        epoch, attempt = client.begin(bulk, "load").epoch, Attempt(0)
        data = batch(["x" * 100_000])

        def stage() -> Any:
            answer = client.append_raw(bulk, "load", epoch, attempt, [(0, attempt.rows.get(0, 0), data)])
            if answer.error_code == 0:
                attempt.add(0, data, 1)
            return answer

        def stage_beside_a_producer() -> Any:
            other.produce(small, ["y"])
            return stage()

        assert [stage().throttle_time_ms for _ in range(20)] == [0] * 20
        until(lambda: stage_beside_a_producer().throttle_time_ms >= 1_000)
        answers: list[Any] = []
        until(
            lambda: (
                answers.append(stage_beside_a_producer())
                or answers[-1].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            )
        )
        assert "ingest.quota.shared.bytes.per.second is used up while" in answers[-1].error_message
        # No client produces any more, and the debt of the quota is paid.
        until(lambda: stage().throttle_time_ms == 0)
        assert client.commit(bulk, "load", epoch, [attempt]).state == COMMITTED
        assert len(client.read(bulk, 0)) == attempt.rows[0]


def test_what_is_remembered_is_bounded_and_not_given_up_for_what_is_new() -> None:
    with pybroker.Broker({"ingest.committed.max": 2}) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        done = {}
        for name, batch_id in (("job", -1), ("query", 0)):
            epoch = client.begin(topic_id, name, batch_id=batch_id).epoch
            attempt = Attempt(0)
            client.append(topic_id, name, epoch, attempt, 0, [name], batch_id=batch_id)
            answer = client.commit(topic_id, name, epoch, [attempt], batch_id=batch_id)
            assert (answer.error_code, answer.state) == (0, COMMITTED)
            done[name] = (epoch, attempt, answer.partitions)
        refused = client.begin(topic_id, "more")
        assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "2 ingests are open or remembered already (ingest.committed.max)" in refused.error_message
        assert "after ingest.id.retention.ms" in refused.error_message
        assert client.listing() == []
        epoch, attempt, partitions = done["job"]
        again = client.commit(topic_id, "job", epoch, [attempt])
        assert (again.state, again.repeated, again.partitions) == (COMMITTED, True, partitions)
        assert client.begin(topic_id, "job").state == COMMITTED
        # The stream already has an entry.
        following = client.begin(topic_id, "query", batch_id=1)
        assert following.state == OPEN
        assert client.commit(topic_id, "query", following.epoch, [], batch_id=1).state == COMMITTED
        # Only old entries are removed: both ids are forgotten, together with their commits.
        client.alter("", {"ingest.id.retention.ms": "1"}, BROKER)
        until(lambda: client.begin(topic_id, "job", join=True).state == OPEN)
        until(lambda: client.begin(topic_id, "more", join=True).state == OPEN)
        assert client.commit(topic_id, "job", epoch, [attempt]).error_code == ErrorCode.PRODUCER_FENCED
        epoch, attempt, _ = done["query"]
        late = client.commit(topic_id, "query", epoch, [attempt], batch_id=0)
        assert late.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert values(client, topic_id, 1) == [["job", "query"]]


def test_attempts_have_a_limit() -> None:
    with pybroker.Broker({"ingest.attempts.max": 2}) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 2)
        epoch = client.begin(topic_id, "i").epoch
        attempt = Attempt(0)
        for partition in range(2):
            client.append(topic_id, "i", epoch, attempt, partition, ["x"])
        other = client.begin(topic_id, "other").epoch
        answer = client.append_raw(topic_id, "other", other, Attempt(0), [(0, 0, batch(["y"]))])
        assert answer.error_code == 0
        assert answer.partitions[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "ingest.attempts.max" in answer.partitions[0].error_message
        client.append(topic_id, "i", epoch, attempt, 0, ["more"])
        assert client.commit(topic_id, "i", epoch, [attempt]).state == COMMITTED
        client.append(topic_id, "other", other, Attempt(0), 0, ["y"])
