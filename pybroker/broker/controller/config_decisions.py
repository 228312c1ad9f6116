"""Decisions about client quotas, and about dynamic configs of topics, brokers, groups and client metrics. Pure; the
caller has validated the values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.cluster.events import AlterClientQuotas, AlterConfigs, ConfigChange
from pybroker.broker.controller.decision import Decision, Steps, decides
from pybroker.broker.controller.topic_id_visibility import decide_raise
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta, TopicImage
from pybroker.broker.metadata.metadata_store import Create, Operation, Set
from pybroker.broker.metadata.quota_nodes import entity_of, is_credentials, parents_of, path_of, user_of_path
from pybroker.broker.metadata.znodes import encode_config
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


@decides(AlterConfigs)
def decide_alter_configs(image: ClusterImage, event: AlterConfigs) -> Decision:
    """Set and remove configs; each resource succeeds or fails independently. An event must not name a resource twice.
    If a setting raises the protocol version to a version with topic ids, the same multi assigns an id to every topic.
    """
    operations: list[Operation] = []
    topics: dict[str, TopicImage] = {}
    raised = not image.topic_ids and any(change.topic_ids for change in event.changes if _fits(image, change))
    if raised:
        step = decide_raise(image)
        operations += step.operations
        topics |= step.topics
    written: dict[str, dict[str, ConfigImage]] = {"broker": {}, "group": {}, "client-metrics": {}}
    reply: list[KafkaError | None] = []
    for change in event.changes:
        if change.resource in written:
            before = _stored(image, change)
            if change.version not in (None, before.version):
                reply.append(_moved_on(change))
                continue
            config = _merged(before.config, change)
            if config != before.config:
                operations.append(_write(_path(change), config, before.version))
                written[change.resource][change.name] = ConfigImage(config, before.version + 1)
            reply.append(None)
            continue
        topic = topics.get(change.name) or image.topics.get(change.name)
        if topic is None or change.topic_id not in (None, topic.topic_id):
            reply.append(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{change.name}'."))
            continue
        if change.version not in (None, topic.config_version):
            reply.append(_moved_on(change))
            continue
        config = _merged(topic.config, change)
        if config != topic.config:
            operations.append(_write(znodes.topic_config_path(topic.name), config, topic.config_version))
            topics[topic.name] = msgspec.structs.replace(topic, config=config, config_version=topic.config_version + 1)
        reply.append(None)
    delta = ImageDelta(
        topics=tuple(topics.values()),
        broker_configs=written["broker"],
        group_configs=written["group"],
        client_metrics=written["client-metrics"],
        raised=raised,
    )
    return Decision(tuple(operations), delta, reply)


def _stored(image: ClusterImage, change: ConfigChange) -> ConfigImage:
    """Return the stored config of a broker, group or client metrics subscription."""
    known = {"broker": image.broker_configs, "group": image.group_configs, "client-metrics": image.client_metrics}
    return known[change.resource].get(change.name, ConfigImage({}, -1))


def _path(change: ConfigChange) -> str:
    path = {
        "broker": znodes.broker_config_path,
        "group": znodes.group_config_path,
        "client-metrics": znodes.client_metrics_config_path,
    }
    return path[change.resource](change.name)


def _fits(image: ClusterImage, change: ConfigChange) -> bool:
    """Return whether the stored version of the brokers' settings is the version that the submitter has read."""
    before = image.broker_configs.get(change.name)
    return change.version in (None, -1 if before is None else before.version)


def _moved_on(change: ConfigChange) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"The settings of {change.resource} {change.name} have been changed by another request meanwhile. Read "
        "them and try again.",
    )


def _merged(before: Mapping[str, str], change: ConfigChange) -> dict[str, str]:
    config: dict[str, str] = {} if change.replace else dict(before)
    for name, value in change.changes.items():
        if value is None:
            config.pop(name, None)
        else:
            config[name] = value
    return config


def _write(path: str, config: dict[str, str], version: int) -> Operation:
    data = znodes.encode_config(config)
    return Create(path, data) if version < 0 else Set(path, data, version)


_NO_CONFIG = ConfigImage({}, -1)


@decides(AlterClientQuotas)
def decide_alter_client_quotas(image: ClusterImage, event: AlterClientQuotas) -> Decision:
    """Change quotas; each entity succeeds or fails independently. An event may name an entity several times. A user's
    quotas and credentials are in the same znode."""
    requested: dict[str, Mapping[str, str]] = {}
    for change in event.changes:
        path = path_of(change.entity)
        before = requested[path] if path in requested else _known(image, path).config
        merged: dict[str, str | None] = {**before, **change.values}
        requested[path] = {name: value for name, value in merged.items() if value is not None}
    nodes: dict[str, ConfigImage] = {}
    steps = Steps()
    for path, config in requested.items():
        if config == _known(image, path).config:
            continue
        unit: list[Operation] = []
        for parent in parents_of(path):
            if nodes.get(parent, _known(image, parent)).version < 0:
                unit.append(Create(parent, encode_config({}) if entity_of(parent) else b""))
                nodes[parent] = ConfigImage({}, 0)
        known = nodes.get(path, _known(image, path))
        data = encode_config(dict(config))
        unit.append(Create(path, data) if known.version < 0 else Set(path, data, known.version))
        nodes[path] = ConfigImage(config, known.version + 1)
        steps.add([unit])
    delta = ImageDelta(
        users={user_of_path(path): node for path, node in nodes.items() if is_credentials(path)},
        quotas={path: node for path, node in nodes.items() if not is_credentials(path)},
    )
    return Decision(tuple(steps.operations), delta, [None] * len(event.changes), seams=tuple(steps.seams))


def _known(image: ClusterImage, path: str) -> ConfigImage:
    if is_credentials(path):
        return image.users.get(user_of_path(path), _NO_CONFIG)
    return image.quotas.get(path, _NO_CONFIG)
