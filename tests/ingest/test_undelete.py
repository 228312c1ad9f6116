"""A deletion and an undelete of a topic neither lose a commit nor leave it half done, even with a later batch of the
stream."""

from __future__ import annotations

import resource

import pytest

import pybroker
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import COMMITTED, COMMITTING, OPEN, Attempt, IngestClient
from tests.ingest.test_storage import limit_bytes
from tests.topic_ids.lives import Lives, until


@pytest.mark.checklist("R16", "U3")
def test_commits_are_remembered_when_the_topic_is_back() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client:
        lives = Lives(broker.port)
        topic_id = client.create("back", 1)
        attempt = Attempt(0)
        epoch = client.begin(topic_id, "job").epoch
        client.append(topic_id, "job", epoch, attempt, 0, ["once"])
        assert client.commit(topic_id, "job", epoch, [attempt]).error_code == 0
        late = client.begin(topic_id, "late").epoch
        client.append(topic_id, "late", late, Attempt(0), 0, ["never committed"])
        assert lives.delete(topic_id).error_code == 0
        # The open ingest is gone, with its files.
        until(lambda: not (broker.data_dir / "ingest" / topic_id.hex).exists())
        assert lives.undelete(topic_id).error_code == 0
        again = client.begin(topic_id, "job")
        assert (again.state, [(one.base_offset, one.end_offset) for one in again.committed]) == (COMMITTED, [(0, 1)])
        repeated = client.commit(topic_id, "job", epoch, [attempt])
        assert (repeated.error_code, repeated.repeated) == (0, True)
        answer = client.commit(topic_id, "late", late, [])
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert [value for _, value in client.read(topic_id, 0)] == ["once"]


@pytest.mark.checklist("R16", "U3", "C10")
def test_a_commit_that_a_deletion_interrupts_is_finished_when_the_topic_is_back() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client:
        lives = Lives(broker.port)
        topic_id = client.create("half", 2)
        filling = Attempt(0)
        epoch = client.begin(topic_id, "filling").epoch
        for _ in range(6):
            client.append(topic_id, "filling", epoch, filling, 0, ["f" * 600_000])
        assert client.commit(topic_id, "filling", epoch, [filling]).error_code == 0
        attempt = Attempt(0)
        epoch = client.begin(topic_id, "job").epoch
        for partition in range(2):
            client.append(topic_id, "job", epoch, attempt, partition, [f"once in {partition}"])
        # The file of partition 0 cannot grow, that of partition 1 can.
        [full] = (broker.data_dir / "half-0").glob("*.log")
        limit_bytes(broker.pid, full.stat().st_size + 10)
        half = client.commit(topic_id, "job", epoch, [attempt])
        assert (half.error_code, half.state) == (ErrorCode.KAFKA_STORAGE_ERROR, COMMITTING)
        assert [value for _, value in client.read(topic_id, 1)] == ["once in 1"]
        assert len(client.read(topic_id, 0)) == 6
        assert lives.delete(topic_id).error_code == 0
        limit_bytes(broker.pid, resource.RLIM_INFINITY)
        assert lives.undelete(topic_id).error_code == 0
        until(lambda: client.begin(topic_id, "job", join=True).state == COMMITTED)
        assert [value for _, value in client.read(topic_id, 1)] == ["once in 1"]
        assert [value for _, value in client.read(topic_id, 0)][6:] == ["once in 0"]
        assert client.commit(topic_id, "job", epoch, [attempt]).repeated
        until(lambda: not (broker.data_dir / "ingest" / topic_id.hex).exists())


def test_a_batch_that_a_later_one_overtakes_does_not_stay() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client, IngestClient(broker.port) as other:
        topic_id = client.create("stream", 8)
        for batch_id in range(0, 20, 2):
            earlier = client.begin(topic_id, "query", batch_id=batch_id).epoch
            later = client.begin(topic_id, "query", batch_id=batch_id + 1).epoch
            attempt = Attempt(0)
            for partition in range(8):
                client.append(topic_id, "query", earlier, attempt, partition, ["x"], batch_id=batch_id)
            # The later batch has nothing to write to disk: it is decided while the earlier one is being prepared.
            client.send(client.commit_request(topic_id, "query", earlier, [attempt], batch_id=batch_id))
            answer = other.commit(topic_id, "query", later, [], batch_id=batch_id + 1)
            assert client.receive().error_code == 0
            if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                answer = other.commit(topic_id, "query", later, [], batch_id=batch_id + 1)
            assert answer.error_code == 0
            assert [one for one in client.listing() if one.state == OPEN] == []
