"""Paths and JSON of the znodes in the metadata store: those of KIP-516 and KIP-78, at the paths of Kafka on ZooKeeper.

    /cluster/id                                    {"version":1,"id":…}                                     KIP-78
    /controller            (ephemeral)             {"version":1,"brokerid":…,"timestamp":…}
    /controller_epoch                              decimal number
    /controller_decisions, /controller_offices     number of decisions, and the controller terms
    /cluster/restored                              acceptance of a restored store
    /brokers/ids/[id]      (ephemeral)             endpoints of a broker, version 5
    /brokers/topics/[topic]                        id and replica assignment, version 3                      KIP-516
    /brokers/topics/[topic]/partitions/[p]/state   leader, ISR, epochs
    /config/topics|brokers|groups|users/[name]     {"version":1,"config":{…}}
    /config/clients|ips/[name], /config/users/[name]/clients/[name]         quotas, see quota_nodes.py
    /tokenauth/tokens/[id]                         a delegation token, see token_nodes.py                    KIP-48
    /feature                                       finalized feature levels, see feature_levels.py          KIP-584
    /admin/delete_topics/[topic]                   order to delete a name, in the format without topic ids
    /admin/deleted_topics/[topic id]               one deletion: what was deleted, when, until when its data stays
    /admin/deleted_topics/[topic id]/[n]           its pieces, if it exceeds the size of a node
    /admin/lineage/[topic id]                      creator and history of a live topic
    /admin/epoch_floors/[topic]                    highest leader epoch of any incarnation of the name
    /admin/running/[broker id]                     written at start, removed by a clean stop
    /admin/staged/[broker id]/[topic id]           this broker's staged data, and its deadline
    /admin/topic_ids/[topic]                       id of a topic whose node does not show it, or whose migration
                                                   to version 3 is not finished
    /admin/audit/op-[number]                       offline commands that changed the cluster
    /ingest/open|committed/[topic id]/[key]        staged ingests: see ingest_records.py
    /migration                                     see migration_node.py
    /latest_producer_id_block                      owned by the producer id manager
    /kafka-acl, /kafka-acl-extended                ACLs, see acl_nodes.py

Reading is lenient where KIP-516 contradicts itself ("topic_id" beside "id", numbers as strings); writing is exact.
Any other content raises DamagedNodeError: the topic or record is quarantined and never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from pybroker.native import Uuid

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
DEFAULT_BROKER_CONFIG = "<default>"
DELETED_TOPICS = "/admin/deleted_topics"
OLD_DELETE_TOPICS = "/admin/delete_topics"
EPOCH_FLOORS = "/admin/epoch_floors"
LINEAGE = "/admin/lineage"
RUNNING = "/admin/running"
STAGED = "/admin/staged"
AUDIT = "/admin/audit"
TOPIC_IDS = "/admin/topic_ids"
BROKER_EPOCHS = "/brokers/epochs"
DECISIONS = "/controller_decisions"
"""Number of durable decisions of all controllers so far."""
OFFICES = "/controller_offices"
"""The terms of controllers; see `store_history`."""
RESTORED = "/cluster/restored"
"""The acceptance of a restored store; see `store_history`."""
OUTCOMES = "/controller_outcomes"
"""In a cluster: the request deduplication log of the last ten minutes, by request id."""

PERSISTENT_PATHS = (
    "/cluster",
    BROKER_IDS,
    TOPICS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    OLD_DELETE_TOPICS,
    DELETED_TOPICS,
    EPOCH_FLOORS,
    LINEAGE,
    RUNNING,
    STAGED,
    AUDIT,
    TOPIC_IDS,
    BROKER_EPOCHS,
    DECISIONS,
    OFFICES,
)
"""Znodes created once, when the store is new."""

TOPIC_VERSION = 3
TOPIC_VERSION_WITHOUT_ID = 2


class DamagedNodeError(Exception):
    """A znode's content is invalid. The text names the znode and the problem."""


def sanitized(name: str) -> str:
    """Return a name in Kafka's encoding for paths."""
    encoded = quote(name, safe="").replace("~", "%7E")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


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


def group_config_path(name: str) -> str:
    return f"{GROUP_CONFIGS}/{sanitized(name)}"


def client_metrics_config_path(name: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}/{sanitized(name)}"


def topic_id_path(name: str) -> str:
    return f"{TOPIC_IDS}/{name}"


def old_deletion_path(name: str) -> str:
    return f"{OLD_DELETE_TOPICS}/{name}"


def deletion_path(topic_id: Uuid) -> str:
    return f"{DELETED_TOPICS}/{topic_id}"


def lineage_path(topic_id: Uuid) -> str:
    return f"{LINEAGE}/{topic_id}"


def floor_path(name: str) -> str:
    return f"{EPOCH_FLOORS}/{name}"


def decode_json(path: str, data: bytes, shape: Any) -> Any:
    """Return a znode's content as `shape`. Raises DamagedNodeError."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem}") from None


def parse_topic_id(path: str, text: str) -> Uuid:
    """Return a topic id from a znode. Raises DamagedNodeError; a reserved id also counts as damaged."""
    try:
        topic_id = Uuid.parse(text)
    except ValueError as problem:
        raise DamagedNodeError(f"{path}: topic id {text!r}: {problem}") from None
    if topic_id in (Uuid.ZERO, Uuid.METADATA):
        raise DamagedNodeError(f"{path}: the topic id {text!r} is reserved")
    return topic_id


# --- topics -----------------------------------------------------------------------------------------------------------


class TopicNode(msgspec.Struct, frozen=True):
    """/brokers/topics/[topic]. `topic_id` is None before the migration to version 3."""

    topic_id: Uuid | None
    partitions: Mapping[int, tuple[int, ...]]
    adding_replicas: Mapping[int, tuple[int, ...]] = {}
    removing_replicas: Mapping[int, tuple[int, ...]] = {}
    departed_replicas: Mapping[int, Mapping[int, int]] = {}
    """See `TopicImage.departed`. A field of pybroker in Kafka's znode."""

    def encode(self) -> bytes:
        """Return version 3 of the content, with the fields in the order of KIP-516's example. Without an id, return
        version 2.
        """
        head: dict[str, Any] = {"version": TOPIC_VERSION, "id": str(self.topic_id)}
        if self.topic_id is None:
            head = {"version": TOPIC_VERSION_WITHOUT_ID}
        return msgspec.json.encode(
            {
                **head,
                "partitions": self.partitions,
                "adding_replicas": self.adding_replicas,
                "removing_replicas": self.removing_replicas,
                **({"departed_replicas": self.departed_replicas} if self.departed_replicas else {}),
            }
        )


class _TopicJson(msgspec.Struct):
    partitions: dict[int, tuple[int, ...]]
    version: int | str = 1
    id: str | None = None
    topic_id: str | None = None
    adding_replicas: dict[int, tuple[int, ...]] | None = None
    removing_replicas: dict[int, tuple[int, ...]] | None = None
    departed_replicas: dict[int, dict[int, int]] | None = None


_topic_decoder = msgspec.json.Decoder(_TopicJson)


def decode_topic(path: str, data: bytes) -> TopicNode:
    """Read versions 1 to 3, and later versions that only add fields."""
    try:
        node = _topic_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem}") from None
    text = node.id or node.topic_id
    if node.id and node.topic_id and node.id != node.topic_id:
        raise DamagedNodeError(f"{path}: has two ids, {node.id!r} and {node.topic_id!r}")
    if sorted(node.partitions) != list(range(len(node.partitions))):
        raise DamagedNodeError(f"{path}: the partitions are not numbered 0 to {len(node.partitions) - 1}")
    return TopicNode(
        parse_topic_id(path, text) if text else None,
        node.partitions,
        node.adding_replicas or {},
        node.removing_replicas or {},
        node.departed_replicas or {},
    )


def encode_leftover(topic_id: Uuid) -> bytes:
    """Return the content of a deleted topic's znode while the znodes of its partitions still exist. The name is already
    free."""
    return msgspec.json.encode({"version": TOPIC_VERSION, "deleted": str(topic_id)})


class _LeftoverJson(msgspec.Struct):
    deleted: str


def decode_leftover(path: str, data: bytes) -> Uuid | None:
    """Return the id of the deleted topic; None if the znode belongs to an existing topic."""
    if b'"deleted"' not in data[:40]:
        return None
    node: _LeftoverJson = decode_json(path, data, _LeftoverJson)
    return parse_topic_id(path, node.deleted)


WITH_ITS_TOPIC = 0
"""Value of `created_zxid` if one multi creates record and topic. The record cannot contain the zxid of its own multi.
"""


class TopicIdRecord(msgspec.Struct, frozen=True):
    """/admin/topic_ids/[topic]: the topic id, written at its assignment if the topic's znode does not contain it yet.
    The record is removed when the znode contains the id and every replica has the id in `partition.metadata`. Until
    then the record proves that a directory without this file belongs to the topic."""

    topic_id: Uuid
    created_zxid: int
    """The zxid of the topic's znode. If a topic was created again with the name, its znode has another zxid.
    WITH_ITS_TOPIC: the zxid is that of this record's own znode."""

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, "id": str(self.topic_id), "created_zxid": self.created_zxid})


class _TopicIdJson(msgspec.Struct):
    id: str
    created_zxid: int


def decode_topic_id(path: str, data: bytes) -> TopicIdRecord:
    node: _TopicIdJson = decode_json(path, data, _TopicIdJson)
    return TopicIdRecord(parse_topic_id(path, node.id), node.created_zxid)


class LogEnd(NamedTuple):
    """The log end of a replica that may have lost records: the leader epoch of its last record, and its end offset."""

    broker_id: int
    epoch: int
    end: int
    """`UNKNOWN_END` until the broker has reported it; `MISSING_LOG` if the log does not exist."""


UNKNOWN_END = -1
MISSING_LOG = -2


class StateNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """/brokers/topics/[topic]/partitions/[p]/state, fields as Kafka writes them to ZooKeeper."""

    controller_epoch: int
    leader: int
    version: int
    leader_epoch: int
    isr: tuple[int, ...]
    suspect: tuple[LogEnd, ...] = ()
    young: bool = False
    """See `PartitionImage`, also for `suspect`. Fields of pybroker in Kafka's znode."""


_state_decoder = msgspec.json.Decoder(StateNode)
_encoder = msgspec.json.Encoder()


def encode_state(
    controller_epoch: int,
    leader: int,
    leader_epoch: int,
    isr: tuple[int, ...],
    suspect: tuple[LogEnd, ...] = (),
    *,
    young: bool = False,
) -> bytes:
    return _encoder.encode(StateNode(controller_epoch, leader, 1, leader_epoch, isr, suspect, young))


def decode_state(path: str, data: bytes) -> StateNode:
    try:
        return _state_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem}") from None


# --- brokers and the controller ---------------------------------------------------------------------------------------


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a broker's listener."""

    listener: str
    host: str
    port: int
    security_protocol: str


class BrokerNode(msgspec.Struct, frozen=True):
    """/brokers/ids/[id]."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None
    timestamp_ms: int
    intact: bool = True
    """Whether the restart certainly lost no record that was visible before. A field of pybroker."""
    directory_id: str = ""
    """The id of the first log directory. It identifies the broker to which a registration from an earlier session
    belongs. A field of pybroker."""
    emptied: bool = False
    """Whether a log directory of an earlier run is missing. Its data may have been only on this broker. A field of
    pybroker."""
    log_dirs: tuple[str, ...] = ()
    """A field of pybroker."""
    cordoned: tuple[str, ...] = ()
    """The log directories that the broker's configuration file cordons. A field of pybroker."""

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
                "intact": self.intact,
                "directory_id": self.directory_id,
                "emptied": self.emptied,
                "log_dirs": self.log_dirs,
                "cordoned": self.cordoned,
            }
        )


class _BrokerJson(msgspec.Struct):
    endpoints: list[str]
    listener_security_protocol_map: dict[str, str] = {}
    rack: str | None = None
    timestamp: str | int = 0
    intact: bool = True
    directory_id: str = ""
    emptied: bool = False
    log_dirs: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()


def decode_broker(path: str, data: bytes) -> BrokerNode:
    node: _BrokerJson = decode_json(path, data, _BrokerJson)
    endpoints: list[Endpoint] = []
    for text in node.endpoints:
        listener, found, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        if not found or not colon or not port.isdigit():
            raise DamagedNodeError(f"{path}: invalid endpoint {text!r}")
        protocol = node.listener_security_protocol_map.get(listener, listener)
        endpoints.append(Endpoint(listener, host, int(port), protocol))
    if not endpoints:
        raise DamagedNodeError(f"{path}: has no endpoints")
    return BrokerNode(
        tuple(endpoints),
        node.rack,
        int(node.timestamp),
        node.intact,
        node.directory_id,
        node.emptied,
        node.log_dirs,
        node.cordoned,
    )


def broker_id_of(path: str, name: str) -> int:
    """Return the broker id in the name of a registration's znode."""
    if not (name.isascii() and name.isdigit()):
        raise DamagedNodeError(f"{path}: {name!r} is not a broker id")
    return int(name)


def encode_broker_epochs(epochs: Mapping[int, int]) -> bytes:
    return msgspec.json.encode({str(broker_id): epoch for broker_id, epoch in sorted(epochs.items())})


def decode_broker_epochs(data: bytes) -> Mapping[int, int]:
    """Return the content of /brokers/epochs, which is empty at first."""
    found: dict[int, int] = decode_json(BROKER_EPOCHS, data, dict[int, int]) if data else {}
    return found


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return msgspec.json.encode({"version": 1, "brokerid": broker_id, "timestamp": str(now_ms)})


def decode_decisions(data: bytes) -> int:
    """Return the content of /controller_decisions, which is empty at first."""
    try:
        return int(data or b"0")
    except ValueError:
        raise DamagedNodeError(f"{DECISIONS}: {data[:40]!r} is not a number") from None


class _ControllerJson(msgspec.Struct):
    brokerid: int


def decode_controller(data: bytes) -> int:
    """Return the broker id of the controller."""
    node: _ControllerJson = decode_json(CONTROLLER, data, _ControllerJson)
    return node.brokerid


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


def is_cluster_id(text: str) -> bool:
    """Return whether the text contains only characters of [a-zA-Z0-9_-]; it need not be a UUID (KIP-78)."""
    return bool(text) and text.isascii() and all(c.isalnum() or c in "_-" for c in text)


def decode_cluster_id(data: bytes) -> str:
    """Return the id. The znode's version is a number (KIP-78) or a string (Kafka), and is ignored."""
    node: _ClusterJson = decode_json(CLUSTER_ID, data, _ClusterJson)
    if not is_cluster_id(node.id):
        raise DamagedNodeError(f"{CLUSTER_ID}: {node.id!r} has characters outside [a-zA-Z0-9_-]")
    return node.id


# --- configs ----------------------------------------------------------------------------------------------------------


def encode_config(config: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({"version": 1, "config": dict(sorted(config.items()))})


class _ConfigJson(msgspec.Struct):
    config: dict[str, str] = {}


def decode_config(path: str, data: bytes) -> dict[str, str]:
    node: _ConfigJson = decode_json(path, data, _ConfigJson)
    return node.config


# --- epoch floors -----------------------------------------------------------------------------------------------------


def encode_floor(epoch: int) -> bytes:
    return msgspec.json.encode({"version": 1, "leader_epoch": epoch})


class _FloorJson(msgspec.Struct):
    leader_epoch: int


def decode_floor(path: str, data: bytes) -> int:
    node: _FloorJson = decode_json(path, data, _FloorJson)
    return node.leader_epoch


class StagedNode(msgspec.Struct, frozen=True):
    """/admin/staged/[broker]/[topic id]: the time before which the broker does not remove the data.

    The wall time is for people. The delay is measured by the monotonic clock of one run of the machine (`boot_id`), so
    that a change of the wall clock while the broker is down cannot shorten it.
    """

    topic: str
    staged_ms: int
    remove_after_ms: int
    """-1: the data is never removed automatically. The topic is unknown, and missing information must not cause a
    deletion."""
    boot_id: str = ""
    """The run of the machine to which `monotonic_ms` belongs; empty if the system has no such id."""
    monotonic_ms: int = 0
    left_ms: int = -1
    """The remaining time (ms) at `monotonic_ms`."""
    promised: bool = False
    """True if the data may not be completely staged: the delay has not begun, or its start is unknown."""

    @property
    def endless(self) -> bool:
        """Whether the removal waits for an operator."""
        return self.remove_after_ms < 0

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})


def decode_staged(path: str, data: bytes) -> StagedNode:
    node: StagedNode = decode_json(path, data, StagedNode)
    return node


class RunningNode(msgspec.Struct, frozen=True):
    """/admin/running/[broker id]: the conditions of a broker's current or last run."""

    boot_id: str
    flush_mode: str
    directory_ids: tuple[str, ...] = ()
    """The ids of the broker's readable log directories."""
    gone: tuple[str, ...] = ()
    """The ids of log directories that earlier runs had and that this run does not have."""
    stopped: bool = False
    """Whether the run ended with a clean stop."""
    suspect: bool = False
    """Whether the previous run may have lost records, if no controller has processed the loss yet."""
    topic_ids: bool = False
    """Whether the broker's `inter.broker.protocol.version` was 2.8 or later."""

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})


def decode_running(path: str, data: bytes) -> RunningNode:
    node: RunningNode = decode_json(path, data, RunningNode)
    return node
