"""The broker dies at each record of a share group's state: every record is completed in the end, and no acknowledged
record is delivered again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker.client import AcknowledgeType, ErrorCode, KafkaError, NewTopic, TopicPartition
from pybroker.client.blocking import AdminClient, ShareConsumer
from tests.groups.kit import create_topic, fill, unique
from tests.share.kit import WAIT_S, dead_letters, set_group
from tests.support.dying_broker import DyingBroker

RECORDS = 4
STEPS = [f"{record} {moment}" for record in ("INITIALIZE", "READ", "WRITE", "FOLD") for moment in ("before", "after")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DyingBroker]:
    broker = DyingBroker(
        "tests.share.dies_writing",
        tmp_path_factory.mktemp("deaths"),
        {
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.snapshot.update.records.per.snapshot": "1",
            # The interval is short: a member that the restarted broker does not know must notice that soon.
            "group.share.heartbeat.interval.ms": "500",
            "group.share.min.heartbeat.interval.ms": "500",
        },
    )
    broker.start()
    yield broker
    broker.kill()


def work(
    bootstrap: str, group: str, topic: str, kind: AcknowledgeType = AcknowledgeType.ACCEPT
) -> set[int]:
    """Accept (or reject) one record after the other until none is left; return the acknowledged ones."""
    where = TopicPartition(topic, 0)
    settings = {"bootstrap.servers": bootstrap, "retry.backoff.max.ms": 200}
    member = {**settings, "group.id": group, "share.acknowledgement.mode": "explicit", "fetch.max.wait.ms": 100}
    known: set[int] = set()
    with AdminClient(settings) as admin, ShareConsumer(member) as consumer:
        # Both members have connected before the broker dies: otherwise they would report a wrong address.
        admin.describe_cluster()
        consumer.start()
        consumer.subscribe(topic)
        while True:
            records = consumer.poll(0.5)
            for record in records:
                assert record.offset not in known
                consumer.acknowledge(record, kind)
                if consumer.commit().get(where, KafkaError(ErrorCode.NETWORK_EXCEPTION)) is None:
                    known.add(record.offset)
            if not records:
                try:
                    there = admin.list_share_group_offsets(group).get(where)
                except KafkaError as error:  # the member has not joined yet: internal topics are being created
                    if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                        raise
                    continue
                if there is not None and (there.start_offset, there.lag) == (RECORDS, 0):
                    return known


@pytest.mark.parametrize("step", STEPS)
def test_the_broker_dies_at_each_record(broker: DyingBroker, step: str) -> None:
    group, topic = unique("share"), create_topic(broker.bootstrap, 1)
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest"})
    fill(broker.bootstrap, topic, 1, RECORDS)
    broker.where.write_text(step)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work, broker.bootstrap, group, topic)
        broker.comes_back()
        # The acknowledgement that was on disk when the broker died had no response.
        assert len(done.result(WAIT_S)) >= RECORDS - 1


@pytest.mark.parametrize("step", [*STEPS[4:], "LETTER before", "LETTER after"])
def test_what_was_rejected_is_in_the_queue_wherever_the_broker_dies(broker: DyingBroker, step: str) -> None:
    """The delivery is at least once: a broker that dies after it has written the dead letter, and before it has stored
    that, writes the letter again."""
    group, topic, queue = unique("share"), create_topic(broker.bootstrap, 1), unique("dlq.deaths")
    with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(queue, 1, 1, config={"errors.deadletterqueue.group.enable": "true"})])
    own = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": queue}
    set_group(broker.port, group, own)
    fill(broker.bootstrap, topic, 1, RECORDS)
    broker.where.write_text(step)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work, broker.bootstrap, group, topic, AcknowledgeType.REJECT)
        broker.comes_back()
        done.result(WAIT_S)
    letters = dead_letters(
        broker.bootstrap, queue, lambda found: {one.of[2] for one in found} == set(range(RECORDS))
    )
    assert len(letters) <= RECORDS + 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_broker_dies_while_a_group_is_deleted(broker: DyingBroker, moment: str) -> None:
    group, topic = unique("share"), create_topic(broker.bootstrap, 1)
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest"})
    fill(broker.bootstrap, topic, 1, RECORDS)
    assert len(work(broker.bootstrap, group, topic)) == RECORDS
    broker.where.write_text(f"DELETE {moment}")

    def delete() -> None:
        with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            admin.delete_groups([group])
            assert group not in {one.group_id for one in admin.list_groups()}

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(delete)
        broker.comes_back()
        done.result(WAIT_S)
    # A new group with the same name starts without state.
    assert work(broker.bootstrap, group, topic) == set(range(RECORDS))
