"""The first image, read from the store's znodes, and the writes that complete unfinished changes. Pure.

A topic is incomplete if it has no id, or no partition states because a crash interrupted its creation. A topic with
unreadable znodes is `damaged`: it is neither served nor deleted, and its name stays in use.

With `inter.broker.protocol.version` below 2.8 no topic's znode contains an id; another znode contains it
(`controller/topic_id_visibility.py`). In later versions, a topic has no id if its znode is older than version 3, or if
an old tool has rewritten the znode (KAFKA-14190). Its id then comes from the first of these sources that has an id: a
migration that has begun; a history that belongs to this topic; `partition.metadata` in all its local directories; a
random number. If a source has two ids, the topic is damaged.

10,000 partitions have only a few distinct states, so equal bytes are decoded once.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.acl_nodes import AclNode, AclPattern, decode_acls
from pybroker.broker.metadata.deletion_records import (
    DEAD_STATES,
    FOUND,
    UNDELETING,
    DeletionRecord,
    forget_operations,
    forget_prepared,
    read_deletions,
)
from pybroker.broker.metadata.feature_levels import FeaturesImage, load_features
from pybroker.broker.metadata.image import (
    NO_LEADER,
    ClusterImage,
    ConfigImage,
    PartitionImage,
    TopicImage,
    clash_key,
    has_clash_key,
    reserved_names,
)
from pybroker.broker.metadata.ingest_records import OPEN, IngestRecord, decode_ingest
from pybroker.broker.metadata.lineage import TopicLineage, decode_lineage
from pybroker.broker.metadata.metadata_store import Create, Delete, Node, Operation, Set
from pybroker.broker.metadata.quota_nodes import CLIENT_CONFIGS, IP_CONFIGS, USER_CONFIGS, is_credentials, user_of_path
from pybroker.broker.metadata.token_nodes import load_tokens
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.native import Uuid

log = logging.getLogger(__name__)


NewId: TypeAlias = Callable[[], Uuid]


class Nodes(NamedTuple):
    """The store's subtrees that contain the cluster's state."""

    topics: Mapping[str, Node]
    configs: Mapping[str, Node]
    admin: Mapping[str, Node]
    acls: Mapping[str, Node] = {}
    extended_acls: Mapping[str, Node] = {}
    ingest: Mapping[str, Node] = {}
    broker_epochs: bytes = b""
    features: Node | None = None
    tokens: Mapping[str, Node] = {}


class LoadedImage(NamedTuple):
    """The image, and the writes that make the store agree with it."""

    image: ClusterImage
    repairs: tuple[Operation, ...]
    unfinished: frozenset[str] = frozenset()
    """Topics whose migration has begun, now or before a crash. Their migration records remain until all replicas have
    written the topic id."""


LocalIds = Mapping[str, AbstractSet[Uuid]]
"""Topic name → the topic ids in `partition.metadata` of the directories with that name."""


def lacks_ids(nodes: Nodes) -> bool:
    """Return whether a topic has no id. In this case `load_image` needs the ids in the directories."""
    prefix = len(znodes.TOPICS) + 1
    for path, node in nodes.topics.items():
        # Searching bytes is enough for znodes that pybroker wrote, and avoids decoding the znodes of 10,000 topics
        # twice.
        if "/" not in path[prefix:] and b'"id":"' not in node.data:
            try:
                if znodes.decode_topic(path, node.data).topic_id is None:
                    return True
            except DamagedNodeError:
                continue
    return False


def shown_id(topics: Mapping[str, Node]) -> str | None:
    """Return the name of a topic whose znode contains its id. None if there is no such topic, which means that
    `inter.broker.protocol.version` was never 2.8 or later."""
    prefix = len(znodes.TOPICS) + 1
    for path, node in topics.items():
        if "/" not in path[prefix:] and b'"id":"' in node.data:
            with contextlib.suppress(DamagedNodeError):
                if znodes.decode_topic(path, node.data).topic_id is not None:
                    return path[prefix:]
    return None


class LoweredError(Exception):
    """Raised if the protocol version is below 2.8 but topics already have ids. The text names a topic and the remedy.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic '{topic}' has a topic id, which protocol versions below 2.8 do not support, and topic ids "
            "cannot be removed again. Set inter.broker.protocol.version to 2.8 or later, or remove the setting"
        )


def load_image(
    controller_epoch: int,
    nodes: Nodes,
    local_ids: LocalIds = MappingProxyType({}),
    new_id: NewId = Uuid.random,
    *,
    topic_ids: bool = True,
) -> LoadedImage:
    """Return the image, without live brokers. If `topic_ids` is true, migrate the znodes that contain no id. Otherwise
    do not change them, and raise LoweredError if a znode contains an id."""
    deletions, problems = read_deletions(nodes.admin)
    for problem in problems:
        # The record is unreadable, but its path still proves that the id is deleted.
        log.error("ignored a damaged deletion record: %s", problem)
    floors = _floors(nodes.admin)
    topics = _Topics(nodes, controller_epoch, floors, local_ids=local_ids, new_id=new_id, topic_ids=topic_ids)
    topics.load(deletions)
    for topic_id in topics.forgotten:
        del deletions[topic_id]
    ingests, damaged_ingests = _ingests(nodes.ingest)
    image = ClusterImage(
        controller_epoch,
        topics.topics,
        {topic.topic_id: name for name, topic in topics.topics.items()},
        {clash_key(name): name for name in topics.topics if has_clash_key(name)},
        {},
        deletions,
        floors,
        broker_configs(nodes.configs),
        topics.damaged,
        leftovers=topics.leftovers,
        reserved=reserved_names(deletions),
        acls=_acls({**nodes.acls, **nodes.extended_acls}),
        users=_users(nodes.configs),
        quotas=_quotas(nodes.configs),
        tokens=load_tokens(nodes.tokens),
        features=_features(nodes.features),
        group_configs={
            unquote(name): config for name, config in _settings_of(znodes.GROUP_CONFIGS, nodes.configs).items()
        },
        client_metrics={
            unquote(name): config for name, config in _settings_of(znodes.CLIENT_METRICS_CONFIGS, nodes.configs).items()
        },
        ingests={record.key: record for record in ingests if record.state == OPEN},
        committed_ingests={record.series: record for record in ingests if record.state != OPEN},
        ingest_folders=_ingest_folders(nodes.ingest),
        damaged_ingests=damaged_ingests,
        delete_orders=_delete_orders(nodes.admin, deletions),
        broker_epochs=znodes.decode_broker_epochs(nodes.broker_epochs),
        topic_ids=topic_ids,
    )
    started = len(znodes.TOPIC_IDS) + 1
    records = {path[started:] for path in nodes.admin if path.startswith(znodes.TOPIC_IDS + "/")}
    records |= {repair.path[started:] for repair in topics.repairs if repair.path.startswith(znodes.TOPIC_IDS + "/")}
    return LoadedImage(image, (*topics.repairs, *forget_prepared(nodes.admin)), frozenset(records))


class _Topics:
    """Reads the topics and the state that they share."""

    def __init__(
        self,
        nodes: Nodes,
        controller_epoch: int,
        floors: Mapping[str, int],
        *,
        local_ids: LocalIds,
        new_id: NewId,
        topic_ids: bool,
    ) -> None:
        self._topic_ids = topic_ids
        self._local_ids = local_ids
        self._histories: defaultdict[int, list[tuple[str, Node]]] | None = None
        """zxid → histories that were created in this transaction; None until a topic without an id needs them."""
        self._nodes = nodes
        self._controller_epoch = controller_epoch
        self._floors = floors
        self._new_id = new_id
        self._states: dict[tuple[bytes, int, tuple[int, ...]], PartitionImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.damaged: dict[str, str] = {}
        self.leftovers: dict[str, int] = {}
        self.forgotten: set[Uuid] = set()
        """Deletion records of topics that exist, which are removed."""
        self.repairs: list[Operation] = []

    def load(self, deletions: Mapping[Uuid, DeletionRecord]) -> None:
        names: dict[Uuid, str] = {}
        prefix = len(znodes.TOPICS) + 1
        ending = {record.topic for record in deletions.values() if record.by_order}
        for path, node in self._nodes.topics.items():
            name = path[prefix:]
            if "/" in name or name in ending:
                continue
            repairs: list[Operation] = []
            try:
                dead = znodes.decode_leftover(path, node.data)
                if dead is not None:
                    if dead not in deletions:
                        raise DamagedNodeError(
                            f"{path}: topic id {dead} is marked as deleted, but has no deletion record"
                        )
                    self.leftovers[name] = self._leftover(name)
                    continue
                topic = self._topic(name, path, node, repairs)
                if topic.topic_id in names:
                    raise DamagedNodeError(
                        f"{path}: topic id {topic.topic_id} also belongs to topic {names[topic.topic_id]!r}"
                    )
                if topic.topic_id in deletions and deletions[topic.topic_id].state in (*DEAD_STATES, UNDELETING):
                    raise DamagedNodeError(f"{path}: topic id {topic.topic_id} belongs to a deleted topic")
            except DamagedNodeError as problem:
                log.error("topic not served, because its metadata is damaged name=%r: %s", name, problem)
                self.damaged[name] = str(problem)
                continue
            found = deletions.get(topic.topic_id)
            if found is not None and found.state == FOUND:
                # The cluster did not know the topic for a while, and knows it again now.
                repairs += forget_operations(found)
                self.forgotten.add(topic.topic_id)
            self.topics[name] = topic
            names[topic.topic_id] = name
            self.repairs += repairs

    def _leftover(self, name: str) -> int:
        """Return how many partitions of a deleted topic still have znodes. If an earlier removal stopped in the middle
        of a partition, remove the rest of this partition."""
        parent = znodes.partitions_path(name)
        if parent not in self._nodes.topics:
            self.repairs.append(Create(parent))
        count = 0
        while f"{parent}/{count}/state" in self._nodes.topics:
            count += 1
        if f"{parent}/{count}" in self._nodes.topics:
            self.repairs.append(Delete(f"{parent}/{count}"))
        return count

    def _topic(self, name: str, path: str, node: Node, repairs: list[Operation]) -> TopicImage:
        content = znodes.decode_topic(path, node.data)
        topic_id, version = content.topic_id, node.version
        if topic_id is not None and not self._topic_ids:
            raise LoweredError(name)
        if topic_id is None:
            topic_id = self._id_of_old_topic(name, path, node, repairs)
        if content.topic_id is None and self._topic_ids:
            migrated = znodes.TopicNode(
                topic_id,
                content.partitions,
                content.adding_replicas,
                content.removing_replicas,
                content.departed_replicas,
            )
            repairs.append(Set(path, migrated.encode(), version))
            version += 1
        config_path = znodes.topic_config_path(name)
        config_node = self._nodes.configs.get(config_path)
        lineage = self._lineage(topic_id, repairs)
        return TopicImage(
            name,
            topic_id,
            self._partitions(name, content, repairs),
            {} if config_node is None else znodes.decode_config(config_path, config_node.data),
            # After a move between stores, or after an undelete, the znode is younger than the topic.
            node.created_ms if lineage.created_ms is None else lineage.created_ms,
            version,
            -1 if config_node is None else config_node.version,
            lineage,
            content.departed_replicas,
        )

    def _id_of_old_topic(self, name: str, path: str, node: Node, repairs: list[Operation]) -> Uuid:
        record_path = znodes.topic_id_path(name)
        known = self._nodes.admin.get(record_path)
        if known is not None:
            record = znodes.decode_topic_id(record_path, known.data)
            created = known.created_zxid if record.created_zxid == znodes.WITH_ITS_TOPIC else record.created_zxid
            if created == node.created_zxid:
                return record.topic_id
        local = self._in_histories(name, node) or self._local_ids.get(name, frozenset())
        if len(local) > 1:
            ids = ", ".join(sorted(map(str, local)))
            raise DamagedNodeError(
                f"{path}: the topic has no topic id, and the directories of {name!r} have several: {ids}"
            )
        topic_id = next(iter(local)) if local else self._new_id()
        data = znodes.TopicIdRecord(topic_id, node.created_zxid).encode()
        repairs.append(Create(record_path, data) if known is None else Set(record_path, data, known.version))
        if local:
            log.warning("restored the lost id of a topic from its directories or history name=%s id=%s", name, topic_id)
        else:
            log.info("topic got a topic id name=%s id=%s", name, topic_id)
        return topic_id

    def _in_histories(self, name: str, topic: Node) -> AbstractSet[Uuid]:
        """Return the ids whose history was created by the same transaction as the topic's znode. If another tool has
        created the znode again, the history belongs to another topic with the same name."""
        if self._histories is None:
            self._histories = defaultdict(list)
            for path, node in self._nodes.admin.items():
                if path.startswith(znodes.LINEAGE + "/"):
                    self._histories[node.created_zxid].append((path, node))
        found = set()
        start = len(znodes.LINEAGE) + 1
        for path, node in self._histories.get(topic.created_zxid, ()):
            try:
                events = decode_lineage(path, node.data).events
                if events and events[-1].name == name:
                    found.add(znodes.parse_topic_id(path, path[start:]))
            except DamagedNodeError:
                continue
        return found - {topic.topic_id for topic in self.topics.values()}

    def _lineage(self, topic_id: Uuid, repairs: list[Operation]) -> TopicLineage:
        path = znodes.lineage_path(topic_id)
        node = self._nodes.admin.get(path)
        if node is None:
            return TopicLineage()
        try:
            return decode_lineage(path, node.data)
        except DamagedNodeError as problem:
            # Keep the topic, because only its history is lost.
            log.error("ignored a damaged topic history: %s", problem)
            repairs.append(Delete(path))
            return TopicLineage()

    def _partitions(self, name: str, content: znodes.TopicNode, repairs: list[Operation]) -> tuple[PartitionImage, ...]:
        nodes, parent = self._nodes.topics, znodes.partitions_path(name)
        if parent not in nodes:
            repairs.append(Create(parent))
        partitions: list[PartitionImage] = []
        floor = self._floors.get(name, -1)
        for index in range(len(content.partitions)):
            path = f"{parent}/{index}/state"
            node = nodes.get(path)
            if node is not None:
                found = self._partition(index, path, node, content)
                if found.leader_epoch <= floor:
                    # The state belongs to the earlier incarnation: a crash interrupted the truncation.
                    found = msgspec.structs.replace(
                        _missing_state(content.partitions[index], self._controller_epoch, floor + 1),
                        state_version=node.version + 1,
                    )
                    repairs.append(Set(path, _state_bytes(found), node.version))
                partitions.append(found)
                continue
            missing = _missing_state(content.partitions[index], self._controller_epoch, self._floors.get(name, -1) + 1)
            if f"{parent}/{index}" not in nodes:
                repairs.append(Create(f"{parent}/{index}"))
            repairs.append(Create(path, _state_bytes(missing)))
            partitions.append(missing)
        return tuple(partitions)

    def _partition(self, index: int, path: str, node: Node, content: znodes.TopicNode) -> PartitionImage:
        replicas = content.partitions[index]
        adding = content.adding_replicas.get(index, ())
        removing = content.removing_replicas.get(index, ())
        key = (node.data, node.version, replicas)
        found = self._states.get(key) if not adding and not removing else None
        if found is None:
            state = znodes.decode_state(path, node.data)
            found = PartitionImage(
                replicas,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.controller_epoch,
                node.version,
                adding,
                removing,
                state.suspect,
                state.young,
            )
            if not adding and not removing:
                self._states[key] = found
        return found


def _missing_state(replicas: tuple[int, ...], controller_epoch: int, leader_epoch: int) -> PartitionImage:
    """Return a state without a leader. When a broker with a replica registers, the controller elects a leader."""
    return PartitionImage(replicas, NO_LEADER, leader_epoch, replicas, controller_epoch, 0)


def _state_bytes(partition: PartitionImage) -> bytes:
    return znodes.encode_state(partition.controller_epoch, partition.leader, partition.leader_epoch, partition.isr)


def _ingests(nodes: Mapping[str, Node]) -> tuple[list[IngestRecord], frozenset[str]]:
    """Return the records, and the paths of damaged records."""
    found: list[IngestRecord] = []
    damaged = set()
    for path, node in nodes.items():
        if path.count("/") != 4:
            continue
        try:
            found.append(decode_ingest(path, node.data))
        except DamagedNodeError as problem:
            damaged.add(path)
            log.error("damaged ingest record; its ingest id cannot be used: %s", problem)
    return found, frozenset(damaged)


def _ingest_folders(nodes: Mapping[str, Node]) -> dict[str, Uuid]:
    found: dict[str, Uuid] = {}
    for path in nodes:
        if path.count("/") == 3:
            try:
                found[path] = znodes.parse_topic_id(path, path.rsplit("/", 1)[1])
            except DamagedNodeError as problem:
                log.warning("ignored an ingest node that belongs to no topic: %s", problem)
    return found


def _floors(admin: Mapping[str, Node]) -> dict[str, int]:
    start = len(znodes.EPOCH_FLOORS) + 1
    return {
        path[start:]: znodes.decode_floor(path, node.data)
        for path, node in admin.items()
        if path.startswith(znodes.EPOCH_FLOORS + "/")
    }


def _delete_orders(admin: Mapping[str, Node], deletions: Mapping[Uuid, DeletionRecord]) -> frozenset[str]:
    """Return the deletion requests for which no deletion has begun."""
    start = len(znodes.OLD_DELETE_TOPICS) + 1
    begun = {record.topic for record in deletions.values() if record.by_order}
    return frozenset(path[start:] for path in admin if path.startswith(znodes.OLD_DELETE_TOPICS + "/")) - begun


def broker_configs(nodes: Mapping[str, Node]) -> dict[str, ConfigImage]:
    """Return the dynamic settings of brokers, by resource name."""
    return _settings_of(znodes.BROKER_CONFIGS, nodes)


def _settings_of(parent: str, nodes: Mapping[str, Node]) -> dict[str, ConfigImage]:
    start = len(parent) + 1
    found: dict[str, ConfigImage] = {}
    for path, node in nodes.items():
        if path.startswith(parent + "/"):
            try:
                found[path[start:]] = ConfigImage(znodes.decode_config(path, node.data), node.version)
            except DamagedNodeError as problem:
                log.error("ignored damaged dynamic settings of a broker or group: %s", problem)
    return found


def guards_image(
    acls: Mapping[str, Node], configs: Mapping[str, Node], tokens: Mapping[str, Node]
) -> ClusterImage:
    """Return an image with only ACLs, users and delegation tokens. Arguments: the znodes below `ACLS` and
    `EXTENDED_ACLS`, the znodes with users, and those below `TOKENS`. Raises DamagedNodeError."""
    return msgspec.structs.replace(
        ClusterImage.initial(0), acls=_acls(acls), users=_users(configs), tokens=load_tokens(tokens)
    )


def _acls(nodes: Mapping[str, Node]) -> dict[AclPattern, AclNode]:
    """Return the ACLs. Raises DamagedNodeError if an ACL is unreadable: it may be a DENY, and no broker may start
    without it."""
    found: dict[AclPattern, AclNode] = {}
    for path, node in nodes.items():
        if node.data:
            bindings = decode_acls(path, node.data)
            if bindings:
                found[bindings[0].pattern] = AclNode(bindings, node.version)
    return found


def _users(nodes: Mapping[str, Node]) -> dict[str, ConfigImage]:
    found: dict[str, ConfigImage] = {}
    for path, node in nodes.items():
        if path.startswith(USER_CONFIGS + "/") and is_credentials(path):
            try:
                found[user_of_path(path)] = ConfigImage(znodes.decode_config(path, node.data), node.version)
            except DamagedNodeError as problem:
                log.error("ignored the damaged credentials of a user; the user cannot authenticate: %s", problem)
    return found


def _features(node: Node | None) -> FeaturesImage:
    try:
        return load_features(node)
    except DamagedNodeError as problem:
        assert node is not None
        log.error("damaged feature levels; every feature is at its highest level: %s", problem)
        return FeaturesImage({}, node.version)


def _quotas(nodes: Mapping[str, Node]) -> dict[str, ConfigImage]:
    found: dict[str, ConfigImage] = {}
    for path, node in nodes.items():
        if path.startswith((USER_CONFIGS + "/", CLIENT_CONFIGS + "/", IP_CONFIGS + "/")) and not is_credentials(path):
            config: dict[str, str] = {}
            try:
                # A znode without data is only a parent.
                config = znodes.decode_config(path, node.data) if node.data else {}
            except DamagedNodeError as problem:
                log.error("ignored damaged quotas: %s", problem)
            found[path] = ConfigImage(config, node.version)
    return found
