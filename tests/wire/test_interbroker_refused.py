"""Listeners for clients refuse requests between brokers."""

from __future__ import annotations

import pytest

from pybroker import native
from pybroker.protocol import interbroker as ib
from pybroker.protocol import messages as m
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import batch, create, fetch, metadata, produce, unique
from tests.wire.client import WireClient

CONTROLLERS_OWN = ["LeaderAndIsr", "StopReplica", "UpdateMetadata", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch"]


@pytest.mark.checklist("R9", "R15")
@pytest.mark.parametrize("name", CONTROLLERS_OWN)
def test_a_client_cannot_play_the_controller(broker: BrokerProcess, name: str) -> None:
    with WireClient(broker.port) as client:
        topic = unique()
        topic_id = create(client, topic).topic_id
        produce(client, topic_id, batch(b"kept"))
        advertised = client.call(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        schema = native.message_schema(f"{name}Request", interbroker=True)
        assert schema is not None
        key, version = schema.api_key, schema.min_version
        assert key not in {row.api_key for row in advertised.api_keys}
        made = native.message_class(f"{name}Request", interbroker=True)
        assert made is not None
        request = made()
        if name == "StopReplica":
            request = ib.StopReplicaRequest(
                controller_id=1,
                controller_epoch=1_000,
                broker_epoch=-1,
                topic_states=[
                    ib.StopReplicaRequest_StopReplicaTopicState(
                        topic_id=topic_id,
                        partition_states=[
                            ib.StopReplicaRequest_StopReplicaPartitionState(
                                partition_index=0, leader_epoch=-2, delete_partition=True
                            )
                        ],
                    )
                ],
            )
        with WireClient(broker.port, interbroker=True) as intruder:
            intruder.send(request, version, answered=False)
            assert intruder.is_closed_by_peer()
        assert fetch(client, topic_id).high_watermark == 1
        assert metadata(client, 12, topic_id).topics[0].error_code == 0


@pytest.mark.checklist("R9", "D1", "D2", "D3", "X1")
def test_the_same_number_is_another_layout_for_clients(broker: BrokerProcess) -> None:
    """Produce 9, ListOffsets 6 and OffsetForLeaderEpoch 4 use names for clients and ids between brokers; the broker
    never guesses."""
    with WireClient(broker.port) as client:
        name = unique()
        topic_id = create(client, name).topic_id
        assert produce(client, name, batch(b"by name"), 9).base_offset == 0
    by_id = ib.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ib.ProduceRequest_TopicProduceData(
                topic_id=topic_id,
                partition_data=[ib.ProduceRequest_PartitionProduceData(index=0, records=batch(b"by id"))],
            )
        ],
    )
    offsets = ib.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ib.ListOffsetsRequest_ListOffsetsTopic(
                topic_id=topic_id,
                partitions=[ib.ListOffsetsRequest_ListOffsetsPartition(partition_index=0, timestamp=-1)],
            )
        ],
    )
    for request, version in [(by_id, 9), (offsets, 6)]:
        with WireClient(broker.port, interbroker=True) as intruder:
            intruder.send(request, version, answered=False)
            assert intruder.is_closed_by_peer()
    with WireClient(broker.port) as client:
        assert fetch(client, topic_id).high_watermark == 1
