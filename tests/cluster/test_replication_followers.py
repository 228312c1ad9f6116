"""Followers that lag, restart, or use a wrong identity: no record is lost, there is no gap, and no wrong replica counts
for commits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pybroker.client import AlterConfigOp, ConfigResource, KafkaError, NewTopic, TopicPartition, blocking
from pybroker.native import Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import ClusterBroker, Network, running_network, until
from tests.support.replicas import (
    Writer,
    await_unregistered,
    batch_of,
    broker_epochs,
    controller,
    create,
    first_offset,
    log_of,
    make_controller,
    produce,
    produce_as_leader,
    read,
    same_logs,
    state,
    state_version,
    topic_id,
)
from tests.topic_ids import kit
from tests.wire.client import WireClient

SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "1000",
    "replica.fetch.backoff.ms": "200",
    "replica.fetch.max.bytes": "1000",
    "replica.fetch.response.max.bytes": "2000",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "auto.leader.rebalance.enable": "false",
}


THREADS = Path("/proc/self/task")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Network]:
    """Three brokers whose followers fetch little at a time."""
    with running_network(tmp_path_factory.mktemp("followers"), SETTINGS, store=store) as network:
        # If the leader were cut off from the controller, the controller could not change its ISR; that is another case.
        make_controller(network.cluster, 1)
        yield network


@pytest.mark.checklist("FD11")
def test_followers_that_come_and_go_again_and_again(network: Network) -> None:
    """The ISR shrinks and grows, and the writer is not disturbed."""
    create(network.cluster, "flapping", [2, 3, 1], min_insync_replicas="2")
    writer = Writer(network.cluster, "flapping")
    writer.start()
    for _ in range(3):
        writer.goes_on()
        network.links.cut_off(2, 3)
        try:
            until(lambda: state(network.cluster, "flapping").isr == {1, 2})
            writer.goes_on()
        finally:
            network.links.heal()
        until(lambda: state(network.cluster, "flapping").isr == {1, 2, 3})
    acknowledged = writer.finish()
    same_logs(network.cluster, "flapping")
    assert read(network.cluster, "flapping")[: len(acknowledged)] == acknowledged


@pytest.mark.checklist("FD12")
def test_the_minimum_in_sync_is_lost_between_append_and_acknowledgement(network: Network) -> None:
    """The producer learns that its records are written but not on enough brokers; the next one is refused before the
    write."""
    create(network.cluster, "few", [2, 3], min_insync_replicas="2")
    produce_as_leader(network.cluster.brokers[2], "few", "first")

    def lost_between() -> bool:
        network.links.heal()
        until(lambda: state(network.cluster, "few").isr == {2, 3})
        network.links.cut_off(2, 3)
        code = produce(network.cluster.brokers[2], "few", "too late").error_code
        # NOT_ENOUGH_REPLICAS: the machine was so slow that the follower had left before the record was written.
        assert code in (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_ENOUGH_REPLICAS)
        return bool(code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    try:
        until(lost_between)
        assert produce(network.cluster.brokers[2], "few", "never").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        until(lambda: state(network.cluster, "few").isr == {2})
    finally:
        network.links.heal()
    same_logs(network.cluster, "few")
    assert read(network.cluster, "few") == ["first", "too late"]


@pytest.mark.checklist("FD16")
def test_a_follower_slower_than_retention_begins_anew_where_the_leader_does(network: Network) -> None:
    """The leader no longer has the records that the follower lacks: it copies all remaining ones, without a gap."""
    create(network.cluster, "retained", [2, 3], segment_bytes=str(1 << 20), retention_bytes=str(2 << 20))
    produce_as_leader(network.cluster.brokers[2], "retained", "old")
    same_logs(network.cluster, "retained")
    network.links.cut_off(2, 3)
    try:
        for number in range(10):
            produce_as_leader(network.cluster.brokers[2], "retained", f"{number} " + 900_000 * "x", acks=1)
        until(lambda: state(network.cluster, "retained").isr == {2})
        # Wait until only three segments remain: no more are removed while the follower copies.
        until(lambda: len(log_of(network.cluster.brokers[2], "retained")) < 3_000_000)
        assert first_offset(log_of(network.cluster.brokers[2], "retained")) > 5
        assert first_offset(log_of(network.cluster.brokers[3], "retained")) == 0
    finally:
        network.links.heal()
    log = same_logs(network.cluster, "retained")
    assert first_offset(log) > 5
    found = [int(value.split()[0]) for value in read(network.cluster, "retained")]
    assert found == list(range(first_offset(log) - 1, 10))


@pytest.mark.checklist("FD16")
def test_a_log_that_starts_within_a_batch_is_copied(network: Network) -> None:
    """DeleteRecords has moved the log start into a batch while the follower was down: the follower gets the whole
    batch."""
    create(network.cluster, "within", [2, 3])
    produce_as_leader(network.cluster.brokers[2], "within", "before")
    same_logs(network.cluster, "within")
    network.links.cut_off(2, 3)
    try:
        produce_as_leader(network.cluster.brokers[2], "within", *(str(number) for number in range(10)), acks=1)
        until(lambda: state(network.cluster, "within").isr == {2})
        with blocking.AdminClient({"bootstrap.servers": network.cluster.brokers[1].bootstrap}) as admin:

            def moved() -> bool:
                # Records can be deleted only up to the high watermark, which advances when the leader knows that the
                # follower has left.
                try:
                    admin.delete_records({TopicPartition("within", 0): 5}).all()
                except KafkaError as error:
                    if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    return False
                return True

            until(moved)
    finally:
        network.links.heal()
    until(lambda: state(network.cluster, "within").isr == {2, 3})
    network.cluster.brokers[2].stop()
    until(lambda: state(network.cluster, "within").leader == 3)
    produce_as_leader(network.cluster.brokers[3], "within", "after")
    assert read(network.cluster, "within") == [*(str(number) for number in range(4, 10)), "after"]
    network.cluster.brokers[2].start()
    until(lambda: state(network.cluster, "within").isr == {2, 3})


@pytest.mark.checklist("FD17")
def test_records_larger_than_a_fetch_may_be_are_copied(network: Network) -> None:
    """`replica.fetch.max.bytes` and `replica.fetch.response.max.bytes` bound answers, not records."""
    create(network.cluster, "large", [2, 3], min_insync_replicas="2")
    for size in (900_000, 10, 900_000):
        produce_as_leader(network.cluster.brokers[2], "large", records=batch_of(size))
    assert len(same_logs(network.cluster, "large")) > 1_800_000


@pytest.mark.checklist("FD9")
def test_a_fetch_names_the_epoch_of_the_leadership_that_it_follows(network: Network) -> None:
    create(network.cluster, "epochs", [2, 3])
    broker = network.cluster.brokers[2]
    broker.restart(crash=True)
    until(lambda: state(network.cluster, "epochs").epoch > 0 and state(network.cluster, "epochs").leader > 0)
    found = state(network.cluster, "epochs")
    # The current leader knows the record.
    until(lambda: state(network.cluster, "epochs", found.leader)[:2] == (found.leader, found.epoch))
    now, broker = found.epoch, network.cluster.brokers[found.leader]
    wanted = {
        now - 1: ErrorCode.FENCED_LEADER_EPOCH,
        now: ErrorCode.NONE,
        now + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
    with WireClient(broker.port) as client:
        for epoch, error in wanted.items():
            assert kit.fetch(client, "epochs", version=12, epoch=epoch).error_code == error
    of_topic = topic_id(broker, "epochs")
    with WireClient(broker.between_port, interbroker=True) as follower:
        other = 5 - broker.broker_id
        life = broker_epochs(network.cluster)[other]
        for epoch, error in wanted.items():
            assert fetched(follower, of_topic, epoch, replica=other, life=life) == error


def fetched(client: WireClient, topic: Uuid, epoch: int, *, replica: int, life: int = -1) -> int:
    """Return the error code of a follower's fetch."""
    partition = wire.FetchRequest_FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1000
    )
    request = wire.FetchRequest(
        replica_id=replica,
        replica_epoch=life,
        topics=[wire.FetchRequest_FetchTopic(topic_id=topic, partitions=[partition])],
    )
    answer = client.call(request, 13)
    code: int = answer.error_code or answer.responses[0].partitions[0].error_code
    return code


@pytest.mark.checklist("B13", "B14", "FD18")
def test_the_earlier_life_of_a_broker_counts_no_more(network: Network) -> None:
    """Broker 3 returns with an empty disk after its leader has proposed it for the ISR: the proposal is void (KIP-903).
    So are orders to it, and its proposals and requests, of the earlier broker epoch (KIP-380)."""
    create(network.cluster, "lives", [2, 3, 1])
    produce_as_leader(network.cluster.brokers[2], "lives", "first")
    same_logs(network.cluster, "lives")
    before = broker_epochs(network.cluster)
    broker = network.cluster.brokers[3]
    broker.kill()
    until(lambda: state(network.cluster, "lives").isr == {1, 2})
    await_unregistered(network.cluster, 3)
    shutil.rmtree(broker.data_dir)
    broker.start()
    found = topic_id(broker, "lives")
    now = state(network.cluster, "lives")
    # The leader knew the earlier broker epoch when it proposed.
    late = wire.AlterPartitionRequest_AlterPartitionPartition(
        partition_index=0,
        leader_epoch=now.epoch,
        partition_epoch=state_version(network.cluster, "lives"),
        new_isr_with_epochs=[
            wire.AlterPartitionRequest_BrokerState(broker_id=2, broker_epoch=before[2]),
            wire.AlterPartitionRequest_BrokerState(broker_id=3, broker_epoch=before[3]),
        ],
    )
    asked = wire.AlterPartitionRequest(
        broker_id=2,
        broker_epoch=before[2],
        topics=[wire.AlterPartitionRequest_AlterPartitionTopic(topic_id=found, partitions=[late])],
    )
    port = network.cluster.brokers[controller(network.cluster)].between_port
    with WireClient(port, interbroker=True) as leader:
        answer = leader.call(asked, 3)
        code = answer.topics[0].partitions[0].error_code
        # If the new broker epoch has joined the ISR meanwhile, the state version of the proposal is old.
        assert code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION)
        asked.broker_id, asked.broker_epoch = 3, before[3]
        assert leader.call(asked, 3).error_code == ErrorCode.STALE_BROKER_EPOCH
    until(lambda: state(network.cluster, "lives").isr == {1, 2, 3})
    with WireClient(network.cluster.brokers[2].between_port, interbroker=True) as follower:
        assert fetched(follower, found, now.epoch, replica=3, life=before[3]) == ErrorCode.STALE_BROKER_EPOCH
    orders = [
        (wire.LeaderAndIsrRequest(controller_id=1, controller_epoch=99, broker_epoch=before[3]), 5),
        (wire.StopReplicaRequest(controller_id=1, controller_epoch=99, broker_epoch=before[3]), 4),
        (wire.UpdateMetadataRequest(controller_id=1, controller_epoch=99, broker_epoch=before[3]), 7),
    ]
    with WireClient(broker.between_port, interbroker=True) as late_controller:
        for order, version in orders:
            assert late_controller.call(order, version).error_code == ErrorCode.STALE_BROKER_EPOCH
    same_logs(network.cluster, "lives")


def test_more_threads_copy_from_each_leader(network: Network) -> None:
    """Each broker copies with `num.replica.fetchers` threads per leader. Linux shows the names of threads."""
    with blocking.AdminClient({"bootstrap.servers": network.cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("threads", replica_assignments={index: [2, 3] for index in range(6)})])
        for count in (2, 1):
            change = AlterConfigOp("num.replica.fetchers", str(count))
            admin.incremental_alter_configs({ConfigResource.broker(""): [change]})
            if THREADS.is_dir():
                until(lambda count=count: len(threads_of(network.cluster.brokers[3], "fetcher-2-")) == count)
            with blocking.Producer({"bootstrap.servers": network.cluster.bootstrap, "acks": "all"}) as producer:
                for number in range(60):
                    producer.send("threads", str(number).encode(), partition=number % 6)


def threads_of(broker: ClusterBroker, name: str) -> list[str]:
    """Return the names of the process's threads with this prefix."""
    found = []
    for path in Path(f"/proc/{broker.pid}/task").glob("*/comm"):
        with suppress(OSError):  # the thread has ended meanwhile
            found.append(path.read_text().strip())
    return [one for one in found if one.startswith(name)]
