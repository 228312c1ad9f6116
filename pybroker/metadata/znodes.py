"""Paths and JSON of the nodes in the metadata store: the seeds' znodes (KIP-516, KIP-78) in ZooKeeper-Kafka's places.

    /cluster/id                                    {"version":1,"id":…}                                     KIP-78
    /controller            (ephemeral)             {"version":1,"brokerid":…,"timestamp":…}
    /controller_epoch                              decimal number
    /brokers/ids/[id]      (ephemeral)             endpoints of a broker, version 5
    /brokers/topics/[topic]                        id and replica assignment, version 3                      KIP-516
    /brokers/topics/[topic]/partitions/[p]/state   leader, ISR, epochs
    /config/topics|brokers/[name]                  {"version":1,"config":{…}}
    /admin/deleted_topics/[topic id]               one deletion: what was deleted, when, until when its data stays
    /admin/epoch_floors/[topic]                    highest leader epoch of any incarnation of the name        rule R6
    /admin/running/[broker id]                     left by a start, taken away by a clean stop
    /admin/staged/[broker id]/[topic id]           what this broker has staged, and its own deadline          X7
    /latest_producer_id_block                      owned by the producer id manager

Reading is lenient where the seeds contradict each other ("topic_id" beside "id", numbers as strings); writing is exact.
Anything else raises DamagedNodeError, which quarantines what the node describes and never deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pybroker.native import Uuid

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
DEFAULT_BROKER_CONFIG = "<default>"
DELETED_TOPICS = "/admin/deleted_topics"
OLD_DELETE_TOPICS = "/admin/delete_topics"
EPOCH_FLOORS = "/admin/epoch_floors"
RUNNING = "/admin/running"
STAGED = "/admin/staged"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

PERSISTENT_PATHS = (
    "/cluster",
    BROKER_IDS,
    TOPICS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    OLD_DELETE_TOPICS,
    DELETED_TOPICS,
    EPOCH_FLOORS,
    RUNNING,
    STAGED,
)
"""Made once, when the store is new."""

TOPIC_VERSION = 3


class DamagedNodeError(Exception):
    """A node's bytes are not what belongs there. Says which and why."""


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions_path(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def state_path(name: str, partition: int) -> str:
    return f"{TOPICS}/{name}/partitions/{partition}/state"


def topic_config_path(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config_path(name: str) -> str:
    return f"{BROKER_CONFIGS}/{name}"


def deletion_path(topic_id: Uuid) -> str:
    return f"{DELETED_TOPICS}/{topic_id}"


def floor_path(name: str) -> str:
    return f"{EPOCH_FLOORS}/{name}"


def _decode(path: str, data: bytes, shape: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem}") from None


def _topic_id(path: str, text: str) -> Uuid:
    try:
        topic_id = Uuid.parse(text)
    except ValueError as problem:
        raise DamagedNodeError(f"{path}: topic id {text!r}: {problem}") from None
    if topic_id in (Uuid.ZERO, Uuid.METADATA):
        raise DamagedNodeError(f"{path}: the topic id {text!r} is reserved")
    return topic_id


# --- topics -----------------------------------------------------------------------------------------------------------


class TopicNode(msgspec.Struct, frozen=True):
    """/brokers/topics/[topic]. `topic_id` is None before the migration to version 3 (checklist 45)."""

    topic_id: Uuid | None
    partitions: Mapping[int, tuple[int, ...]]
    adding_replicas: Mapping[int, tuple[int, ...]] = {}
    removing_replicas: Mapping[int, tuple[int, ...]] = {}

    def encode(self) -> bytes:
        """Version 3, fields in the order of the golden example (checklist 44)."""
        return msgspec.json.encode(
            {
                "version": TOPIC_VERSION,
                "id": None if self.topic_id is None else str(self.topic_id),
                "partitions": self.partitions,
                "adding_replicas": self.adding_replicas,
                "removing_replicas": self.removing_replicas,
            }
        )


class _TopicJson(msgspec.Struct):
    version: int
    partitions: dict[int, tuple[int, ...]]
    id: str | None = None
    topic_id: str | None = None
    adding_replicas: dict[int, tuple[int, ...]] = {}
    removing_replicas: dict[int, tuple[int, ...]] = {}


_topic_decoder = msgspec.json.Decoder(_TopicJson)


def decode_topic(path: str, data: bytes) -> TopicNode:
    """Versions 1 to 3 and later ones that only add fields."""
    try:
        node = _topic_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem}") from None
    text = node.id or node.topic_id
    if node.id and node.topic_id and node.id != node.topic_id:
        raise DamagedNodeError(f"{path}: two ids, {node.id!r} and {node.topic_id!r}")
    if sorted(node.partitions) != list(range(len(node.partitions))):
        raise DamagedNodeError(f"{path}: the partitions are not numbered 0 to {len(node.partitions) - 1}")
    return TopicNode(
        None if text is None else _topic_id(path, text), node.partitions, node.adding_replicas, node.removing_replicas
    )


class StateNode(msgspec.Struct, frozen=True):
    """/brokers/topics/[topic]/partitions/[p]/state, fields as ZooKeeper-Kafka writes them."""

    controller_epoch: int
    leader: int
    version: int
    leader_epoch: int
    isr: tuple[int, ...]


_state_decoder = msgspec.json.Decoder(StateNode)
_encoder = msgspec.json.Encoder()


def encode_state(controller_epoch: int, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> bytes:
    return _encoder.encode(StateNode(controller_epoch, leader, 1, leader_epoch, isr))


def decode_state(path: str, data: bytes) -> StateNode:
    try:
        return _state_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem}") from None


# --- brokers and the controller ---------------------------------------------------------------------------------------


class Endpoint(msgspec.Struct, frozen=True):
    """Where a listener of a broker can be reached."""

    listener: str
    host: str
    port: int
    security_protocol: str


class BrokerNode(msgspec.Struct, frozen=True):
    """/brokers/ids/[id]."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None
    timestamp_ms: int

    def encode(self) -> bytes:
        first = self.endpoints[0]
        return msgspec.json.encode(
            {
                "version": 5,
                "host": first.host,
                "port": first.port,
                "jmx_port": -1,
                "timestamp": str(self.timestamp_ms),
                "endpoints": [f"{e.listener}://{e.host}:{e.port}" for e in self.endpoints],
                "listener_security_protocol_map": {e.listener: e.security_protocol for e in self.endpoints},
                "rack": self.rack,
                "features": {},
            }
        )


class _BrokerJson(msgspec.Struct):
    endpoints: list[str]
    listener_security_protocol_map: dict[str, str] = {}
    rack: str | None = None
    timestamp: str | int = 0


def decode_broker(path: str, data: bytes) -> BrokerNode:
    node: _BrokerJson = _decode(path, data, _BrokerJson)
    endpoints: list[Endpoint] = []
    for text in node.endpoints:
        listener, found, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        if not found or not colon or not port.isdigit():
            raise DamagedNodeError(f"{path}: endpoint {text!r}")
        protocol = node.listener_security_protocol_map.get(listener, listener)
        endpoints.append(Endpoint(listener, host, int(port), protocol))
    if not endpoints:
        raise DamagedNodeError(f"{path}: no endpoints")
    return BrokerNode(tuple(endpoints), node.rack, int(node.timestamp))


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return msgspec.json.encode({"version": 1, "brokerid": broker_id, "timestamp": str(now_ms)})


def decode_controller_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise DamagedNodeError(f"{CONTROLLER_EPOCH}: {data[:40]!r} is not a number") from None


# --- cluster id -------------------------------------------------------------------------------------------------------


def encode_cluster_id(cluster_id: str) -> bytes:
    return msgspec.json.encode({"version": 1, "id": cluster_id})


class _ClusterJson(msgspec.Struct):
    id: str


def decode_cluster_id(data: bytes) -> str:
    """The id is a string of the alphabet [a-zA-Z0-9_-], not necessarily a UUID (checklist 260, X30)."""
    node: _ClusterJson = _decode(CLUSTER_ID, data, _ClusterJson)
    if not node.id or not node.id.isascii() or not all(c.isalnum() or c in "_-" for c in node.id):
        raise DamagedNodeError(f"{CLUSTER_ID}: {node.id!r} has characters outside [a-zA-Z0-9_-]")
    return node.id


# --- configs ----------------------------------------------------------------------------------------------------------


def encode_config(config: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({"version": 1, "config": dict(sorted(config.items()))})


class _ConfigJson(msgspec.Struct):
    config: dict[str, str] = {}


def decode_config(path: str, data: bytes) -> dict[str, str]:
    node: _ConfigJson = _decode(path, data, _ConfigJson)
    return node.config


# --- deletion ---------------------------------------------------------------------------------------------------------

DELETING = "deleting"
"""The name is free; not every replica has confirmed that its data is staged."""
STAGED_STATE = "staged"
"""Every replica has staged its data; it is kept until `remove_after_ms`."""
REMOVED = "removed"
"""The data is gone. The record stays as a tombstone: proof that the id is dead."""


class DeletionRecord(msgspec.Struct, frozen=True):
    """/admin/deleted_topics/[topic id]: written in the multi that frees the name."""

    topic: str
    topic_id: Uuid
    state: str
    created_ms: int
    deleted_ms: int
    deleted_by: str
    remove_after_ms: int
    """Wall time before which no broker removes its data."""
    partitions: Mapping[int, tuple[int, ...]]
    config: Mapping[str, str]
    leader_epoch_max: int
    offsets: tuple[Mapping[str, Any], ...] = ()
    """Offsets that groups had committed for it (R22): what undelete writes back."""

    def encode(self) -> bytes:
        return msgspec.json.encode(
            {
                "version": 1,
                "topic": self.topic,
                "id": str(self.topic_id),
                "state": self.state,
                "created_ms": self.created_ms,
                "deleted_ms": self.deleted_ms,
                "deleted_by": self.deleted_by,
                "remove_after_ms": self.remove_after_ms,
                "partitions": self.partitions,
                "config": self.config,
                "leader_epoch_max": self.leader_epoch_max,
                "offsets": self.offsets,
            }
        )


class _DeletionJson(msgspec.Struct):
    topic: str
    id: str
    state: str
    created_ms: int
    deleted_ms: int
    deleted_by: str
    remove_after_ms: int
    partitions: dict[int, tuple[int, ...]]
    config: dict[str, str]
    leader_epoch_max: int
    offsets: tuple[dict[str, Any], ...] = ()


def decode_deletion(path: str, data: bytes) -> DeletionRecord:
    node: _DeletionJson = _decode(path, data, _DeletionJson)
    return DeletionRecord(
        node.topic,
        _topic_id(path, node.id),
        node.state,
        node.created_ms,
        node.deleted_ms,
        node.deleted_by,
        node.remove_after_ms,
        node.partitions,
        node.config,
        node.leader_epoch_max,
        node.offsets,
    )


def encode_floor(epoch: int) -> bytes:
    return msgspec.json.encode({"version": 1, "leader_epoch": epoch})


class _FloorJson(msgspec.Struct):
    leader_epoch: int


def decode_floor(path: str, data: bytes) -> int:
    node: _FloorJson = _decode(path, data, _FloorJson)
    return node.leader_epoch


class StagedNode(msgspec.Struct, frozen=True):
    """/admin/staged/[broker]/[topic id]: this broker's own promise not to remove earlier."""

    topic: str
    staged_ms: int
    remove_after_ms: int

    def encode(self) -> bytes:
        return msgspec.json.encode(
            {
                "version": 1,
                "topic": self.topic,
                "staged_ms": self.staged_ms,
                "remove_after_ms": self.remove_after_ms,
            }
        )


class _StagedJson(msgspec.Struct):
    topic: str
    staged_ms: int
    remove_after_ms: int


def decode_staged(path: str, data: bytes) -> StagedNode:
    node: _StagedJson = _decode(path, data, _StagedJson)
    return StagedNode(node.topic, node.staged_ms, node.remove_after_ms)


class RunningNode(msgspec.Struct, frozen=True):
    """/admin/running/[broker id]: under which circumstances a broker runs, or ran when it crashed."""

    boot_id: str
    flush_mode: str

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, "boot_id": self.boot_id, "flush_mode": self.flush_mode})


def decode_running(path: str, data: bytes) -> RunningNode:
    node: RunningNode = _decode(path, data, RunningNode)
    return node
