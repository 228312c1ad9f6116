"""Brokers as RegisterBrokerRecord, BrokerRegistrationChangeRecord and UnregisterBrokerRecord.

In the records, a live broker is "registered, not fenced", a lost broker is "fenced", a broker that is about to stop is
"in controlled shutdown", and a removed broker is "unregistered". Only snapshots contain registrations of fenced
brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pybroker.broker.metadata.control_messages import SECURITY_PROTOCOL_NUMBERS
from pybroker.broker.metadata.feature_levels import FeatureRange
from pybroker.broker.metadata.image import UNREGISTERED, BrokerImage, ClusterImage, ImageDelta
from pybroker.broker.metadata.records.frames import UnreadableRecordError, encode_record
from pybroker.broker.metadata.records.own_facts import OwnFacts
from pybroker.broker.metadata.znodes import Endpoint
from pybroker.protocol import messages as m

FENCED = IN_CONTROLLED_SHUTDOWN = 1
_PROTOCOL_NAMES = {number: name for name, number in SECURITY_PROTOCOL_NUMBERS.items()}


def broker_frames(before: ClusterImage, delta: ImageDelta, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of a delta's brokers."""
    for broker in delta.brokers:
        yield encode_record(_registration(broker, fenced=False))
    for broker in delta.fenced:
        yield encode_record(_registration(broker, fenced=True))
    for broker_id in delta.lost_brokers:
        yield encode_record(
            m.BrokerRegistrationChangeRecord(broker_id, _epoch(before, broker_id), fenced=FENCED)
        )
    for broker_id in delta.leaving:
        yield encode_record(
            m.BrokerRegistrationChangeRecord(
                broker_id, _epoch(before, broker_id), in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
            )
        )
    for broker_id in delta.forgotten_brokers:
        yield encode_record(m.UnregisterBrokerRecord(broker_id, _epoch(before, broker_id)))
    epochs = (m.NoOpRecord_BrokerEpoch(broker_id, epoch) for broker_id, epoch in delta.broker_epochs.items())
    if delta.broker_epochs:
        facts.add("broker_epochs", *epochs)


def _registration(broker: BrokerImage, *, fenced: bool) -> object:
    return m.RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=[
            m.RegisterBrokerRecord_BrokerEndpoint(
                endpoint.listener,
                endpoint.host,
                endpoint.port,
                SECURITY_PROTOCOL_NUMBERS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
        features=[
            m.RegisterBrokerRecord_BrokerFeature(feature.name, feature.lowest, feature.highest)
            for feature in broker.features
        ],
        fenced=fenced,
        emptied=broker.emptied,
        log_dir_paths=list(broker.log_dirs),
        cordoned_paths=list(broker.cordoned),
    )


def _epoch(before: ClusterImage, broker_id: int) -> int:
    broker = before.brokers.get(broker_id)
    return UNREGISTERED if broker is None else broker.epoch


class BrokerReader:
    """Reads brokers from records."""

    def __init__(self) -> None:
        self.registered: list[BrokerImage] = []
        self.fenced: list[BrokerImage] = []
        self.lost: list[int] = []
        self.leaving: list[int] = []
        self.forgotten: list[int] = []
        self.epochs: dict[int, int] = {}

    def register(self, record: m.RegisterBrokerRecord) -> None:
        endpoints = tuple(
            Endpoint(endpoint.name, endpoint.host, endpoint.port, _protocol_name(endpoint.security_protocol))
            for endpoint in record.end_points
        )
        brokers = self.fenced if record.fenced else self.registered
        brokers.append(
            BrokerImage(
                record.broker_id,
                record.broker_epoch,
                endpoints,
                record.rack,
                record.emptied,
                tuple(record.log_dir_paths),
                tuple(record.cordoned_paths),
                record.incarnation_id,
                tuple(
                    FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version)
                    for feature in record.features
                ),
            )
        )

    def change(self, record: m.BrokerRegistrationChangeRecord) -> None:
        match record.fenced, record.in_controlled_shutdown:
            case 1, 0:
                self.lost.append(record.broker_id)
            case 0, 1:
                self.leaving.append(record.broker_id)
            case fenced, leaving:
                raise UnreadableRecordError(f"broker {record.broker_id}: fenced {fenced}, shutting down {leaving}")

    def unregister(self, record: m.UnregisterBrokerRecord) -> None:
        self.forgotten.append(record.broker_id)

    def broker_epochs(self, structs: list[Any]) -> None:
        """Read broker epochs from NoOpRecord."""
        self.epochs.update((struct.broker_id, struct.broker_epoch) for struct in structs)


def _protocol_name(number: int) -> str:
    name = _PROTOCOL_NAMES.get(number)
    if name is None:
        raise UnreadableRecordError(f"security protocol {number} is unknown")
    return name
