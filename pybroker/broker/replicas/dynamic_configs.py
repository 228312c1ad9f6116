"""Dynamic settings on this broker: the settings of brokers, and the settings of topics with open partitions on this
broker. Topics that are opened later take their settings from the image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from pybroker.broker import logs
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta, TopicImage
from pybroker.broker.metadata.znodes import DEFAULT_BROKER_CONFIG
from pybroker.config import BrokerConfig, InvalidValue, Scope, connection_overrides, resolve_topic_configs, single_node
from pybroker.config.broker_defs import broker_key
from pybroker.native import NativeBroker

log = logging.getLogger(__name__)

TOPICS_A_TURN = 200
"""If a default changes, every topic must be updated. After this number of topics, other requests run."""

_NOTHING_STORED = ConfigImage({}, -1)


def with_stored(config: BrokerConfig, broker_id: int, stored: Mapping[str, ConfigImage]) -> BrokerConfig:
    """Return a broker's settings, with the stored dynamic settings applied."""
    cluster, broker = _layers(broker_id, stored)
    return config.with_dynamic(
        cluster=usable(cluster, in_cluster=config.in_cluster), broker=usable(broker, in_cluster=config.in_cluster)
    )


def usable(stored: Mapping[str, str], *, in_cluster: bool) -> dict[str, str]:
    """Return the stored settings that this broker supports. A broker of another version may have stored settings that
    this version does not know."""
    return {name: text for name, text in stored.items() if _obstacle(name, text, in_cluster=in_cluster) is None}


class DynamicConfigs:
    """The `ImageObserver` for settings."""

    def __init__(self, broker_id: int, config: BrokerConfig, native: NativeBroker) -> None:
        self._broker_id = broker_id
        self._config = config
        self._native = native
        self._log_level = config["log.level"]
        self._resolving: asyncio.Task[None] | None = None

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a change. The settings of brokers come first, because they are the defaults of topics."""
        if isinstance(change, ClusterImage) or change.broker_configs:
            self._load(after.broker_configs)
            await self._put_in_force(topic for topic in after.topics.values() if topic.topic_id in before.names)
        else:
            await self._put_in_force(topic for topic in change.topics if _is_set_anew(before, topic))

    def _load(self, stored: Mapping[str, ConfigImage]) -> None:
        cluster, broker = _layers(self._broker_id, stored)
        for name, text in (*cluster.items(), *broker.items()):
            problem = _obstacle(name, text, in_cluster=self._config.in_cluster)
            if problem is not None:
                log.warning("ignored a stored broker setting name=%s: %s", name, problem)
        in_cluster = self._config.in_cluster
        self._config.set_dynamic(
            cluster=usable(cluster, in_cluster=in_cluster), broker=usable(broker, in_cluster=in_cluster)
        )
        self._native.set_settings(self._config.native_settings())
        if connection_overrides.unresolved(self._config.get_str(connection_overrides.NAME)):
            self._resolving = asyncio.create_task(self._resolve_hosts())
        level = self._config["log.level"]
        if level != self._log_level:
            # Set the level only if the setting has changed: other code may have set the root logger's level.
            logs.set_logger_level(logs.ROOT, level)
            self._log_level = level

    async def _resolve_hosts(self) -> None:
        """Resolve the host names in a setting in the background, because it may take seconds."""
        text = self._config.get_str(connection_overrides.NAME)
        try:
            await asyncio.to_thread(connection_overrides.resolve, text)
        except InvalidValue as problem:
            log.warning(
                "host names of a setting cannot be resolved; its other entries have effect %s=%s: %s",
                connection_overrides.NAME,
                text,
                problem,
            )
        self._native.set_settings(self._config.native_settings())

    async def _put_in_force(self, topics: Iterable[TopicImage]) -> None:
        partitions = self._native.partitions
        for number, topic in enumerate(topics, 1):
            try:
                partitions.set_topic_config(topic.topic_id, resolve_topic_configs(topic.config, self._config))
            except ValueError as problem:
                # The stored setting is invalid, because a broker of another version or an operator wrote it. This topic
                # keeps its effective settings; the other topics get their new settings.
                log.error(
                    "cannot apply the settings of a topic; its earlier settings stay name=%s id=%s: %s",
                    topic.name,
                    topic.topic_id,
                    problem,
                )
            if number % TOPICS_A_TURN == 0:
                await asyncio.sleep(0)


def _is_set_anew(before: ClusterImage, topic: TopicImage) -> bool:
    known = before.topic_by_id(topic.topic_id)
    return known is not None and known.config != topic.config


def _layers(broker_id: int, stored: Mapping[str, ConfigImage]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the stored settings for all brokers, and those for this broker."""
    cluster, broker = (stored.get(name, _NOTHING_STORED).config for name in (DEFAULT_BROKER_CONFIG, str(broker_id)))
    return cluster, broker


def _obstacle(name: str, text: str, *, in_cluster: bool) -> str | None:
    key = broker_key(name)
    if key is None or key.scope is Scope.READ_ONLY:
        return "it is not a dynamic setting of this version"
    try:
        key.parse(text)
    except InvalidValue as problem:
        return str(problem)
    return None if in_cluster else single_node.problem(name, text)
