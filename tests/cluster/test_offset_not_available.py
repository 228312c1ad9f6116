"""KIP-207: a new leader whose high watermark is below the start of its epoch does not return an end offset below one
that clients have seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.client import KafkaError, OffsetSpec, TopicPartition, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.cluster import ClusterBroker, Network, running_network, until
from tests.support.replicas import controller, create, log_of, produce, produce_as_leader, same_logs, state
from tests.wire.client import WireClient

SETTINGS = {
    # The follower that is cut off stays in the ISR.
    "replica.lag.time.max.ms": "600000",
    "auto.leader.rebalance.enable": "false",
}
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
UNAVAILABLE = ErrorCode.OFFSET_NOT_AVAILABLE
WHERE = TopicPartition("t", 0)


@pytest.fixture
def network(tmp_path: object) -> Iterator[Network]:
    with running_network(tmp_path, SETTINGS) as network:  # type: ignore[arg-type]  # a Path
        yield network


def listed(broker: ClusterBroker, timestamp: int, version: int = 7, isolation: int = 0) -> tuple[int, int]:
    """Return error code and offset."""
    wanted = m.ListOffsetsRequest_ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=timestamp, max_num_offsets=1
    )
    topic = m.ListOffsetsRequest_ListOffsetsTopic(name="t", partitions=[wanted])
    with WireClient(broker.port) as client:
        request = m.ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        row = client.call(request, version).topics[0].partitions[0]
    return row.error_code, row.old_style_offsets[0] if row.old_style_offsets else row.offset


@pytest.mark.only_on_zookeeper("two of three voters are out of reach: nothing is decided")
def test_a_new_leader_does_not_list_an_end_that_it_does_not_know(network: Network) -> None:
    cluster, links = network
    new = controller(cluster)
    old, slow = sorted({1, 2, 3} - {new})
    brokers = cluster.brokers
    create(cluster, "t", [old, new, slow])
    produce_as_leader(brokers[old], "t", "known")
    same_logs(cluster, "t", new)
    until(lambda: listed(brokers[old], LATEST) == (0, 1))
    links.cut_off(slow, old, new)
    assert produce(brokers[old], "t", "perhaps", acks=1).error_code == 0
    until(lambda: b"perhaps" in log_of(brokers[new], "t"))
    brokers[old].kill()
    until(lambda: state(cluster, "t", new).leader == new)
    until(lambda: listed(brokers[new], EARLIEST) == (0, 0))
    for version in (5, 7, 9):
        assert listed(brokers[new], LATEST, version) == (UNAVAILABLE, -1)
        assert listed(brokers[new], LATEST, version, isolation=1) == (UNAVAILABLE, -1)
    for version in (1, 4):
        assert listed(brokers[new], LATEST, version) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert listed(brokers[new], MAX_TIMESTAMP) == (UNAVAILABLE, -1)
    assert listed(brokers[new], 1 << 60) == (UNAVAILABLE, -1)
    assert listed(brokers[new], 0)[0] == 0, "a record below the high watermark answers"
    servers = {"bootstrap.servers": brokers[new].bootstrap}
    with blocking.Consumer({**servers, "default.api.timeout.ms": 1_000}) as consumer, pytest.raises(KafkaError):
        consumer.end_offsets([WHERE])
    with blocking.AdminClient(servers) as admin, blocking.Consumer(servers) as consumer:
        links.heal()
        assert admin.list_offsets({WHERE: OffsetSpec.latest()}).all()[WHERE].offset == 2
        assert consumer.end_offsets([WHERE]) == {WHERE: 2}
    assert listed(brokers[new], 1 << 60) == (0, -1)
