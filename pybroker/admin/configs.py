"""Dynamic settings of topics, brokers and loggers: validate, one controller event, then in force here, then answered
(R12).

The controller stores them (under /config in Kafka's JSON); this service is the only one that submits them, one request
at a time, so that APPEND and SUBTRACT start from what is really stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from pybroker import logs
from pybroker.admin import config_views
from pybroker.admin.config_changes import (
    ResourceOps,
    ResourceType,
    broker_changes,
    check_broker_name,
    check_request,
    check_stored_size,
    logger_changes,
    topic_changes,
)
from pybroker.admin.topic_names import check_topic_name
from pybroker.cluster.events import AlterConfigs, ConfigChange
from pybroker.config import (
    BROKER_SETTINGS,
    BrokerConfig,
    ConfigError,
    InvalidValue,
    Scope,
    check_resolved,
    resolve_topic_configs,
)
from pybroker.config.protocol_version import PROTOCOL_VERSION
from pybroker.errors import KafkaError
from pybroker.metadata.image import ClusterImage, ConfigImage, TopicImage
from pybroker.metadata.znodes import DEFAULT_BROKER_CONFIG
from pybroker.native import NativeBroker
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

NOTHING_STORED = ConfigImage({}, -1)

TOPICS_A_TURN = 200
"""When a default changes, every topic is told; this many, then other requests get their turn."""


def with_stored(config: BrokerConfig, broker_id: int, stored: Mapping[str, ConfigImage]) -> BrokerConfig:
    """A broker's settings under the dynamic ones of the store."""
    cluster, broker = (stored.get(name, NOTHING_STORED).config for name in (DEFAULT_BROKER_CONFIG, str(broker_id)))
    return config.with_dynamic(cluster=_usable(cluster), broker=_usable(broker))


class ConfigAdmin:
    """The settings of this broker and of the cluster's topics.

    `image` gives the cluster's current image; `submit` hands an event to the controller and gives its reply
    once it is durable and visible.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        native: NativeBroker,
        image: Callable[[], ClusterImage],
        submit: Callable[[AlterConfigs], Awaitable[Sequence[KafkaError | None]]],
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._native = native
        self._image = image
        self._submit = submit
        self._turn = asyncio.Lock()

    def load(self) -> None:
        """Puts the stored dynamic broker settings in force; called once, after the image is read and before
        partitions open.
        """
        cluster, broker = self._stored(DEFAULT_BROKER_CONFIG), self._stored(str(self._broker_id))
        for name, text in (*cluster.items(), *broker.items()):
            problem = _obstacle(name, text)
            if problem is not None:
                log.warning("The stored broker setting %s has no effect: %s", name, problem)
        self._config.set_dynamic(cluster=_usable(cluster), broker=_usable(broker))
        self._native.set_settings(self._config.native_settings())

    def describe(self, resource_type: int, name: str, names: list[str] | None) -> list[config_views.ConfigEntry]:
        """The settings of a resource, all or those named. Raises KafkaError."""
        if resource_type == ResourceType.TOPIC:
            check_topic_name(name)
            entries = config_views.topic_entries(self._topic(name).config, self._config)
        elif resource_type == ResourceType.BROKER:
            check_broker_name(name, self._broker_id)
            if name == "":
                entries = config_views.cluster_default_entries(self._config)
            else:
                entries = config_views.broker_entries(self._config)
        elif resource_type == ResourceType.BROKER_LOGGER:
            if name == "":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            check_broker_name(name, self._broker_id)
            entries = config_views.logger_entries(logs.logger_levels())
        else:
            message = f"Resource type {resource_type} has no settings that this broker keeps."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return config_views.chosen(entries, names)

    async def alter(
        self, resources: Sequence[ResourceOps], validate_only: bool, principal: str
    ) -> list[KafkaError | None]:
        """Changes settings; each resource succeeds or fails by itself. What succeeded is durable and in force
        when this returns.
        """
        async with self._turn:
            results: list[KafkaError | None] = list(check_request(resources))
            submitted: list[tuple[int, ConfigChange]] = []
            for index, resource in enumerate(resources):
                if results[index] is None:
                    try:
                        change = self._prepare(resource, validate_only)
                    except KafkaError as problem:
                        results[index] = problem
                        continue
                    if change is not None:
                        submitted.append((index, change))
            if validate_only or not submitted:
                return results
            replies = await self._submit(AlterConfigs(tuple(change for _, change in submitted)))
            done: list[ConfigChange] = []
            for (index, change), reply in zip(submitted, replies, strict=True):
                results[index] = reply
                if reply is None:
                    done.append(change)
                    log.info(
                        "Settings of %s %s changed by %s: %s", change.resource, change.name, principal, _shown(change)
                    )
            await self._put_in_force(done)
            return results

    def _prepare(self, resource: ResourceOps, validate_only: bool) -> ConfigChange | None:
        """The change to submit; None for loggers, whose levels live in this process only and are set here
        (KIP-412).
        """
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            topic = self._topic(name)
            changes = topic_changes(resource, topic.config, self._config)
            return ConfigChange("topic", name, changes, resource.replace, topic.topic_id)
        check_broker_name(name, self._broker_id)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            levels = logger_changes(resource, logs.LEVELS, logs.is_logger)
            if not validate_only:
                for logger, level in levels.items():
                    logs.set_logger_level(logger, level)
            return None
        key = name or DEFAULT_BROKER_CONFIG
        current = self._stored(key)
        changes = broker_changes(resource, current, self._config)
        change = ConfigChange("broker", key, changes, resource.replace)
        topic_ids = self._check_effect(change, current)
        return msgspec.structs.replace(change, topic_ids=topic_ids)

    def _check_effect(self, change: ConfigChange, current: Mapping[str, str]) -> bool:
        """Refuses a change after which the defaults of topics contradict each other, topic ids would have to go, or
        the store would not take the settings. Gives whether topics have ids then."""
        after = {} if change.replace else dict(current)
        after.update({name: text for name, text in change.changes.items() if text is not None})
        for name, text in change.changes.items():
            if text is None:
                after.pop(name, None)
        check_stored_size(after)
        cluster = after if change.name == DEFAULT_BROKER_CONFIG else self._stored(DEFAULT_BROKER_CONFIG)
        broker = after if change.name != DEFAULT_BROKER_CONFIG else self._stored(str(self._broker_id))
        then = self._config.with_dynamic(cluster=_usable(cluster), broker=_usable(broker))
        try:
            check_resolved(resolve_topic_configs({}, then))
        except ConfigError as problem:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(problem)) from None
        if self._image().topic_ids and not then.topic_ids:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{PROTOCOL_VERSION} cannot be {then[PROTOCOL_VERSION]}: topics have ids, which no version below 2.8 "
                "knows, and they cannot be taken back.",
            )
        return then.topic_ids

    async def _put_in_force(self, changes: Sequence[ConfigChange]) -> None:
        """Native code gets what is stored now, which may be newer than `changes`: the same call twice does no
        harm.
        """
        if any(change.resource == "broker" for change in changes):
            self.load()
            names = list(self._image().topics)  # their defaults changed
        else:
            names = [change.name for change in changes]
        for begin in range(0, len(names), TOPICS_A_TURN):
            for name in names[begin : begin + TOPICS_A_TURN]:
                topic = self._image().topics.get(name)
                if topic is not None:
                    self._put_topic_in_force(topic)
            await asyncio.sleep(0)

    def _put_topic_in_force(self, topic: TopicImage) -> None:
        try:
            self._native.partitions.set_topic_config(topic.topic_id, resolve_topic_configs(topic.config, self._config))
        except ValueError as problem:
            # Stored by another version or by hand: the topic keeps what was in force, the other topics go on.
            log.error("The settings of topic %s (%s) are not in force: %s", topic.name, topic.topic_id, problem)

    def _topic(self, name: str) -> TopicImage:
        topic = self._image().topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    def _stored(self, name: str) -> Mapping[str, str]:
        stored = self._image().broker_configs.get(name)
        return stored.config if stored is not None else {}


def _usable(stored: Mapping[str, str]) -> dict[str, str]:
    """The stored settings that this version can obey; another version may have stored others."""
    return {name: text for name, text in stored.items() if _obstacle(name, text) is None}


def _obstacle(name: str, text: str) -> str | None:
    key = BROKER_SETTINGS.get(name)
    if key is None or key.scope is Scope.READ_ONLY:
        return "it is not a dynamic setting of this version"
    try:
        key.parse(text)
    except InvalidValue as problem:
        return str(problem)
    return None


def _shown(change: ConfigChange) -> str:
    """A change for the log; secrets stay out of it."""
    sensitive = {name for name in change.changes if name in BROKER_SETTINGS and BROKER_SETTINGS[name].sensitive}
    parts = [
        f"{name} removed" if text is None else f"{name}={'(hidden)' if name in sensitive else text}"
        for name, text in change.changes.items()
    ]
    return ", ".join(parts + (["everything else removed"] if change.replace else []))
