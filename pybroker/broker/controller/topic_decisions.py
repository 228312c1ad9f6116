"""Decisions that create topics and add partitions. Pure functions of image and event."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from pybroker.broker.cluster.events import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    NewPartitions,
    NewTopic,
)
from pybroker.broker.cluster.lookup import unknown_topic
from pybroker.broker.controller.decision import Decision, Steps, Units, decides
from pybroker.broker.controller.replica_placement import away, place_new
from pybroker.broker.controller.topic_id_visibility import id_operations, topic_node
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import (
    NO_LEADER,
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
    clash_key,
    has_clash_key,
    target_replicas,
)
from pybroker.broker.metadata.lineage import AUTO_CREATED, CREATED, TopicEvent, TopicLineage
from pybroker.broker.metadata.metadata_store import Create, Delete, Operation, Set
from pybroker.broker.metadata.znodes import MISSING_LOG, LogEnd
from pybroker.errors import KafkaError
from pybroker.native import INTERNAL_TOPICS, Uuid
from pybroker.protocol.error_codes import ErrorCode

PARTITIONS_PER_REQUEST_MAX = 50_000
"""Limit of partitions that one request may add. It limits the size of the multi and of the messages, and the files that
brokers create at once."""

Replicas = tuple[int, ...]


# --- create -----------------------------------------------------------------------------------------------------------


@decides(CreateTopics)
def decide_create(image: ClusterImage, event: CreateTopics, new_id: Callable[[], Uuid] = Uuid.random) -> Decision:
    """Create topics; each succeeds or fails independently (KIP-4). This function and `truncate` generate the ids of new
    topics; `metadata.image_loader` generates the ids of migrated topics."""
    steps = Steps()
    created: list[TopicImage] = []
    ids: set[Uuid] = set()
    reply: list[CreatedTopic | KafkaError] = []
    keys: dict[str, str] = {}
    partitions_left = PARTITIONS_PER_REQUEST_MAX
    for topic in event.topics:
        try:
            check_name_is_free(image, topic.name, keys)
            replicas = _assign(image, topic, event.seed, partitions_left)
        except KafkaError as error:
            reply.append(error)
            continue
        partitions_left -= len(replicas)
        if has_clash_key(topic.name):
            keys[clash_key(topic.name)] = topic.name
        topic_id = Uuid.ZERO
        if not event.validate_only:
            topic_id = unused_id(image, ids, new_id)
            ids.add(topic_id)
            epoch = first_leader_epoch(image, topic.name)
            how = AUTO_CREATED if event.automatic else CREATED
            made = TopicEvent(how, event.now_ms, event.created_by, topic.name)
            new = new_topic(
                image,
                topic.name,
                topic_id,
                replicas=replicas,
                config=topic.config,
                lineage=TopicLineage((made,), epoch),
                created_ms=event.now_ms,
            )
            steps.add(create_units(image, new))
            created.append(new)
        reply.append(CreatedTopic(topic.name, topic_id, len(replicas), len(replicas[0]), topic.config))
    delta = ImageDelta(topics=tuple(created), leftovers=cleared(image, created))
    return Decision(tuple(steps.operations), delta, reply, seams=tuple(steps.seams))


def check_name_is_free(image: ClusterImage, name: str, keys: Mapping[str, str]) -> None:
    """Raise KafkaError TOPIC_ALREADY_EXISTS or INVALID_TOPIC_EXCEPTION if the name cannot be used."""
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name in image.damaged:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic '{name}' already exists, but its metadata is damaged: {image.damaged[name]}",
        )
    if name in image.reserved:
        taken = image.deletions[image.reserved[name]]
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic '{name}' is marked for deletion."
            if taken.by_order
            else f"The name '{name}' is taken: topic id {taken.topic_id} is being undeleted with this name.",
        )
    if has_clash_key(name):
        key = clash_key(name)
        returning = (reserved for reserved in image.reserved if clash_key(reserved) == key)
        other = image.clash_keys.get(key) or keys.get(key) or next(returning, None)
        if other is not None and other != name:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic '{other}': metric names cannot distinguish '.' from '_'.",
            )


def unused_id(image: ClusterImage, taken: Container[Uuid], new_id: Callable[[], Uuid]) -> Uuid:
    """Return a random id that is not reserved, not taken by this decision, and not the id of an existing or deleted
    topic."""
    while True:
        topic_id = new_id()
        if (
            topic_id not in (Uuid.ZERO, Uuid.METADATA)
            and topic_id not in image.names
            and topic_id not in image.deletions
            and topic_id not in taken
        ):
            return topic_id


def _assign(image: ClusterImage, topic: NewTopic, seed: int, partitions_left: int) -> list[Replicas]:
    if topic.assignments is not None:
        if sorted(topic.assignments) != list(range(len(topic.assignments))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Partitions of a manual assignment must be numbered consecutively from 0.",
            )
        if len(topic.assignments) > partitions_left:
            raise _too_many()
        replicas = [topic.assignments[partition] for partition in range(len(topic.assignments))]
        factor = len(replicas[0]) if replicas else 0
        for partition, assigned in enumerate(replicas):
            _check_assigned(image, partition, assigned, factor)
        return replicas
    if topic.num_partitions > partitions_left:
        raise _too_many()
    return place_new(image, topic.num_partitions, topic.replication_factor, seed)


def _too_many() -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, f"A request can create at most {PARTITIONS_PER_REQUEST_MAX} partitions."
    )


def _check_assigned(image: ClusterImage, partition: int, assigned: Replicas, factor: int) -> None:
    problem = None
    if not assigned:
        problem = "has no replicas"
    elif len(set(assigned)) != len(assigned):
        problem = f"names a broker twice: {list(assigned)}"
    elif len(assigned) != factor:
        problem = f"has {len(assigned)} replicas, other partitions have {factor}"
    else:
        down = [broker for broker in assigned if broker not in image.brokers]
        unknown = down and [broker for broker in down if broker not in away(image)]
        if unknown:
            problem = f"names unknown brokers: {unknown}"
        elif len(down) == len(assigned):
            problem = f"names only brokers that are down: {down}"
    if problem is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual assignment of partition {partition} {problem}."
        )


def _new_partition(image: ClusterImage, replicas: Replicas, leader_epoch: int) -> PartitionImage:
    """Return the state of a new partition.

    Consider a leader that dies before it has created its log. If some replicas were down when the topic was created,
    they cannot confirm that no record is lost; the leader may nevertheless create an empty log when it returns. If all
    replicas were up, they report that none of them has a log.
    """
    alive = tuple(broker for broker in replicas if broker in image.brokers)
    return PartitionImage(
        replicas=replicas,
        leader=alive[0] if alive else NO_LEADER,
        leader_epoch=leader_epoch,
        isr=alive or replicas[:1],
        controller_epoch=image.controller_epoch,
        state_version=0,
        suspect=(LogEnd(alive[0], leader_epoch, MISSING_LOG),) if alive and len(alive) < len(replicas) else (),
        young=len(replicas) > 1,
    )


def first_leader_epoch(image: ClusterImage, name: str) -> int:
    """Return an epoch above the leader epochs of all incarnations of the name; 0 for a new name."""
    return image.floors.get(name, -1) + 1


def new_topic(
    image: ClusterImage,
    name: str,
    topic_id: Uuid,
    *,
    replicas: Sequence[Replicas],
    config: Mapping[str, str],
    lineage: TopicLineage,
    created_ms: int,
) -> TopicImage:
    """Return a topic whose partitions start with the lineage's first leader epoch."""
    # Most partitions of a topic have the same replicas. Let them share one object.
    states: dict[Replicas, PartitionImage] = {}
    partitions = []
    for assigned in replicas:
        state = states.get(assigned)
        if state is None:
            state = states[assigned] = _new_partition(image, assigned, lineage.first_epoch)
        partitions.append(state)
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=tuple(partitions),
        config=dict(config),
        created_ms=created_ms,
        node_version=0,
        config_version=0 if config else -1,
        lineage=lineage,
    )


def create_operations(image: ClusterImage, topic: TopicImage) -> list[Operation]:
    """Return the operations that create all znodes of a topic."""
    return [operation for unit in create_units(image, topic) for operation in unit]


def create_units(image: ClusterImage, topic: TopicImage, beside: Sequence[Operation] = ()) -> Units:
    """Like `create_operations`, but in atomic units. The first units remove znodes that an earlier topic of the same
    name has left. The unit with the topic's own znode makes the topic exist, and also contains `beside`. If a crash
    prevents the units after this one, the next load completes them."""
    left = image.leftovers.get(topic.name)
    units, head = ([], []) if left is None else leftover_units(topic.name, left)
    head += [
        Create(znodes.topic_path(topic.name), topic_node(topic, image.topic_ids)),
        *id_operations(topic, image.topic_ids),
    ]
    head += belongings(topic)
    head.append(Create(znodes.partitions_path(topic.name)))
    head += beside
    return [*units, head, *state_units(topic.name, 0, topic.partitions)]


def belongings(topic: TopicImage) -> list[Operation]:
    """Return the operations that create the znodes of a topic's config and lineage."""
    lineage = Create(znodes.lineage_path(topic.topic_id), topic.lineage.encode())
    if not topic.config:
        return [lineage]
    return [Create(znodes.topic_config_path(topic.name), znodes.encode_config(topic.config)), lineage]


def state_units(name: str, first: int, partitions: Sequence[PartitionImage]) -> Units:
    """Return units that create the znodes of the partitions from index `first` on."""
    prefix = znodes.partitions_path(name)
    encoded: dict[PartitionImage, bytes] = {}
    units: Units = []
    for index, partition in enumerate(partitions, first):
        data = encoded.get(partition)
        if data is None:
            data = encoded[partition] = encode_state(partition)
        units.append([Create(f"{prefix}/{index}"), Create(f"{prefix}/{index}/state", data)])
    return units


def leftover_units(name: str, partitions: int) -> tuple[Units, list[Operation]]:
    """Return units that remove a deleted topic's znodes, if the multi that freed the name could not contain them all.
    They first remove the partitions' znodes, from the last partition to the first, then the topic's own znode."""
    prefix = znodes.partitions_path(name)
    units: Units = [
        [Delete(f"{prefix}/{index}/state"), Delete(f"{prefix}/{index}")] for index in reversed(range(partitions))
    ]
    return units, [Delete(prefix), Delete(znodes.topic_path(name))]


def cleared(image: ClusterImage, created: Sequence[TopicImage]) -> dict[str, int]:
    """Return the topic names whose leftover znodes this change removes completely."""
    return {topic.name: -1 for topic in created if topic.name in image.leftovers}


def encode_state(partition: PartitionImage) -> bytes:
    """Return the content of a partition's state znode."""
    return znodes.encode_state(
        partition.controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.suspect,
        young=partition.young,
    )


# --- add partitions ---------------------------------------------------------------------------------------------------


@decides(CreatePartitions)
def decide_create_partitions(image: ClusterImage, event: CreatePartitions) -> Decision:
    """Add partitions; each topic succeeds or fails independently (KIP-195)."""
    steps = Steps()
    grown: list[TopicImage] = []
    reply: list[KafkaError | None] = []
    left = PARTITIONS_PER_REQUEST_MAX
    for change in event.topics:
        try:
            topic, added = _grow(image, change, event.seed, left)
        except KafkaError as error:
            reply.append(error)
            continue
        left -= len(added)
        reply.append(None)
        if event.validate_only:
            continue
        bigger = msgspec.structs.replace(
            topic, partitions=topic.partitions + tuple(added), node_version=topic.node_version + 1
        )
        # The version check makes the write fail if the image has another incarnation of the topic.
        node = Set(znodes.topic_path(topic.name), topic_node(bigger, image.topic_ids), topic.node_version)
        steps.add([[node], *state_units(topic.name, len(topic.partitions), added)])
        grown.append(bigger)
    return Decision(tuple(steps.operations), ImageDelta(topics=tuple(grown)), reply, seams=tuple(steps.seams))


def _grow(image: ClusterImage, change: NewPartitions, seed: int, left: int) -> tuple[TopicImage, list[PartitionImage]]:
    topic = image.topics.get(change.name)
    if topic is None or (change.topic_id is not None and topic.topic_id != change.topic_id):
        raise unknown_topic(image, change.name)
    if change.name in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Topic '{change.name}' is internal. Its number of partitions cannot change, because it decides which "
            "coordinator a group belongs to.",
        )
    current = len(topic.partitions)
    if change.total == current:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic '{change.name}' already has {current} partitions.")
    if change.total < current:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{change.name}' has {current} partitions, which is more than the requested {change.total}.",
        )
    count = change.total - current
    if count > left:
        raise _too_many()
    factor = len(target_replicas(topic.partitions[0]))
    if change.assignments is None:
        replicas = place_new(image, count, factor, seed, current)
    else:
        if len(change.assignments) != count:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The request adds {count} partitions but has {len(change.assignments)} assignments.",
            )
        replicas = list(change.assignments)
        for index, assigned in enumerate(replicas):
            _check_assigned(image, current + index, assigned, factor)
    epoch = first_leader_epoch(image, change.name)
    return topic, [_new_partition(image, assigned, epoch) for assigned in replicas]
