"""Dynamic settings of topics, groups, brokers and loggers: validate them, submit one event to the controller, and
answer when the change is in effect.

The controller stores them (under /config in Kafka's JSON), and `replicas.dynamic_configs` applies them. A change
contains the version of the settings from which it was computed. If another broker has changed the settings since, this
broker computes its change again from the stored settings. Therefore two concurrent APPENDs both take effect, and only
validated settings are stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from pybroker.broker import logs
from pybroker.broker.admin import config_views
from pybroker.broker.admin.config_changes import (
    OpType,
    ResourceOps,
    ResourceType,
    broker_changes,
    check_broker_name,
    check_group_name,
    check_request,
    check_stored_size,
    client_metrics_changes,
    group_changes,
    logger_changes,
    topic_changes,
)
from pybroker.broker.admin.topic_names import check_topic_name
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import AlterConfigs, ConfigChange
from pybroker.broker.metadata.image import TopicImage
from pybroker.broker.metadata.znodes import DEFAULT_BROKER_CONFIG
from pybroker.broker.replicas.dynamic_configs import usable
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.broker.security.keystores import listener_tls
from pybroker.config import (
    BrokerConfig,
    ConfigError,
    InvalidValue,
    check_resolved,
    connection_overrides,
    render_value,
    resolve_topic_configs,
)
from pybroker.config.broker_defs import broker_key
from pybroker.config.broker_tls import BY_NAME as TLS
from pybroker.config.consistency import changed_problems
from pybroker.config.listener_settings import listener_setting
from pybroker.config.protocol_version import PROTOCOL_VERSION
from pybroker.config.stores import UnreadableFileError
from pybroker.errors import KafkaError
from pybroker.native import ListenerError, NativeBroker
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 50
"""Limit of attempts to make a change while other brokers keep changing the same settings."""


READ_S_MAX = 10.0
"""Time limit in seconds for reading the keystores and truststores of a listener."""


class ConfigAdmin:
    """Describes and alters settings of this broker and of the cluster's topics and groups."""

    def __init__(self, broker_id: int, config: BrokerConfig, view: ClusterView, controller: ControllerClient) -> None:
        self._broker_id = broker_id
        self._config = config
        self._view = view
        self._controller = controller
        self._turn = asyncio.Lock()

    def describe(self, resource_type: int, name: str, names: list[str] | None) -> list[config_views.ConfigEntry]:
        """Return the named settings of a resource, or all settings. Raises KafkaError."""
        if resource_type == ResourceType.TOPIC:
            check_topic_name(name)
            entries = config_views.topic_entries(self._topic(name).config, self._config)
        elif resource_type == ResourceType.BROKER:
            check_broker_name(name, self._broker_id)
            if name == "":
                entries = config_views.cluster_default_entries(self._config)
            else:
                entries = config_views.broker_entries(self._config)
        elif resource_type == ResourceType.GROUP:
            check_group_name(name)
            entries = config_views.group_entries(self._view.image.group_config(name), self._config)
        elif resource_type == ResourceType.CLIENT_METRICS:
            if name == "":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            subscription = self._view.image.client_metrics.get(name)
            entries = config_views.client_metrics_entries({} if subscription is None else subscription.config)
        elif resource_type == ResourceType.BROKER_LOGGER:
            if name == "":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            check_broker_name(name, self._broker_id)
            entries = config_views.logger_entries(logs.logger_levels())
        else:
            message = f"Resource type {resource_type} has no settings in this broker."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return config_views.chosen(entries, names)

    async def alter(
        self, resources: Sequence[ResourceOps], validate_only: bool, caller: Caller, turns: LoopShares
    ) -> list[KafkaError | None]:
        """Change settings. Each resource succeeds or fails independently; successful changes are durable and in effect
        on return."""
        async with self._turn:
            results = [problem async for problem in turns.each(check_request(resources))]
            await self._resolve_hosts(resources, results)
            left = [index for index, problem in enumerate(results) if problem is None]
            for attempt in range(ATTEMPTS_MAX):
                try:
                    if attempt:
                        await self._controller.catch_up()
                    submitted = await self._prepared(resources, left, results, turns, validate_only=validate_only)
                    if validate_only or not submitted:
                        return results
                    left = await self._submit(submitted, results, caller, turns)
                except KafkaError as problem:
                    if not attempt:
                        raise
                    # Do not fail the whole request, because changes of other resources may have succeeded.
                    return [problem if index in left else result for index, result in enumerate(results)]
                if not left:
                    return results
            busy = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other requests keep changing the same settings. Try again.")
            return [busy if index in left else result for index, result in enumerate(results)]

    async def _resolve_hosts(self, resources: Sequence[ResourceOps], results: list[KafkaError | None]) -> None:
        """Refuse host names that cannot be resolved. The resolution runs in a thread, because it may take seconds."""
        for index, resource in enumerate(resources):
            if results[index] is not None or resource.resource_type != ResourceType.BROKER:
                continue
            texts = [
                op.value
                for op in resource.ops
                if op.name == connection_overrides.NAME and op.op == OpType.SET and op.value
            ]
            for text in texts:
                try:
                    if connection_overrides.unresolved(text):
                        await asyncio.to_thread(connection_overrides.resolve, text)
                except InvalidValue as problem:
                    message = f"Invalid value {text} for configuration {connection_overrides.NAME}: {problem}"
                    results[index] = KafkaError(ErrorCode.INVALID_REQUEST, message)

    async def _prepared(
        self,
        resources: Sequence[ResourceOps],
        requested: Sequence[int],
        results: list[KafkaError | None],
        turns: LoopShares,
        *,
        validate_only: bool,
    ) -> list[tuple[int, ConfigChange]]:
        """Return the changes to submit for the resources at these indexes; store the errors of the others in `results`.
        """
        found: list[tuple[int, ConfigChange]] = []
        async for index in turns.each(requested):
            try:
                change = self._prepare(resources[index], validate_only)
                if change is not None and change.resource == "broker":
                    await self._check_listeners(change)
            except KafkaError as problem:
                results[index] = problem
                continue
            if change is not None:
                found.append((index, change))
        return found

    async def _submit(
        self,
        submitted: Sequence[tuple[int, ConfigChange]],
        results: list[KafkaError | None],
        caller: Caller,
        turns: LoopShares,
    ) -> list[int]:
        """Submit changes and store their results. Return the indexes of the resources whose settings another broker has
        changed since they were read.
        """
        answer = await self._controller.submit(AlterConfigs(tuple(change for _, change in submitted)), caller=caller)
        again: list[int] = []
        async for (index, change), reply in turns.each(zip(submitted, answer.reply, strict=True)):
            results[index] = reply
            if reply is None:
                what = f"{change.resource} {change.name}"
                log.info("settings changed resource=%s by=%r: %s", what, caller.principal, _shown(change))
                results[index] = answer.late
            elif reply.code == ErrorCode.INVALID_UPDATE_VERSION:
                again.append(index)
        return again

    def _prepare(self, resource: ResourceOps, validate_only: bool) -> ConfigChange | None:
        """Return the change to submit. Logger levels are set here instead, and None is returned: they exist only in
        this process (KIP-412)."""
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            topic = self._topic(name)
            if resource.topic_id not in (None, topic.topic_id):
                # The topic has been deleted and created again since the request arrived.
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {resource.topic_id}.")
            changes = topic_changes(resource, topic.config, self._config)
            return ConfigChange("topic", name, changes, resource.replace, topic.topic_id, version=topic.config_version)
        if resource.resource_type == ResourceType.GROUP:
            check_group_name(name)
            of_group = self._view.image.group_configs.get(name)
            changes = group_changes(resource, {} if of_group is None else of_group.config, self._config)
            return ConfigChange(
                "group", name, changes, resource.replace, version=-1 if of_group is None else of_group.version
            )
        if resource.resource_type == ResourceType.CLIENT_METRICS:
            of_name = self._view.image.client_metrics.get(name)
            changes = client_metrics_changes(resource, {} if of_name is None else of_name.config)
            version = -1 if of_name is None else of_name.version
            return ConfigChange("client-metrics", name, changes, resource.replace, version=version)
        check_broker_name(name, self._broker_id)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            if name == "":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: ")
            levels = logger_changes(resource, logs.LEVELS, logs.is_logger)
            if not validate_only:
                for logger, level in levels.items():
                    logs.set_logger_level(logger, level)
            return None
        key = name or DEFAULT_BROKER_CONFIG
        stored = self._view.image.broker_configs.get(key)
        current = {} if stored is None else stored.config
        changes = broker_changes(resource, current, self._config)
        version = -1 if stored is None else stored.version
        change = ConfigChange("broker", key, changes, resource.replace, version=version)
        topic_ids = self._check_effect(change)
        return msgspec.structs.replace(change, topic_ids=topic_ids)

    def _then(self, change: ConfigChange) -> BrokerConfig:
        """Return a broker's settings as they will be after the change. Raises KafkaError if they are too large to
        store."""
        current = self._stored(change.name)
        after = {} if change.replace else dict(current)
        after.update({name: text for name, text in change.changes.items() if text is not None})
        for name, text in change.changes.items():
            if text is None:
                after.pop(name, None)
        check_stored_size(after)
        cluster = after if change.name == DEFAULT_BROKER_CONFIG else self._stored(DEFAULT_BROKER_CONFIG)
        broker = after if change.name != DEFAULT_BROKER_CONFIG else self._stored(str(self._broker_id))
        in_cluster = self._config.in_cluster
        return self._config.with_dynamic(
            cluster=usable(cluster, in_cluster=in_cluster), broker=usable(broker, in_cluster=in_cluster)
        )

    def _check_effect(self, change: ConfigChange) -> bool:
        """Refuse a change that makes topic defaults contradict each other, that would remove topic ids, or that is too
        large for the store. Return whether topics have ids after the change."""
        then = self._then(change)
        try:
            check_resolved(resolve_topic_configs({}, then))
            NativeBroker.check_settings(then.native_settings())
        except (ConfigError, ValueError) as problem:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(problem)) from None
        for name, wrong in changed_problems(self._config, then):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name}={render_value(then[name])}: {wrong}")
        replaced = change.replace and PROTOCOL_VERSION in self._stored(change.name)
        if PROTOCOL_VERSION not in change.changes and not replaced:
            # During an upgrade, the settings of two brokers may contain different protocol versions. Do not refuse
            # changes of other settings because of this.
            return False
        if self._view.image.topic_ids and not then.topic_ids:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{PROTOCOL_VERSION} cannot be {then[PROTOCOL_VERSION]}: topics have topic ids, which versions "
                "below 2.8 do not support, and topic ids cannot be removed again.",
            )
        return then.topic_ids

    async def _check_listeners(self, change: ConfigChange) -> None:
        """Refuse unusable keystores and truststores, and settings of listeners that do not exist."""
        then = self._then(change)
        changed = [*change.changes, *(self._stored(change.name) if change.replace else ())]
        settings = [listener_setting(name) for name in changed]
        names = {listener.name for listener in then.listeners if listener.protocol.endswith("SSL")}
        for setting, text in zip(settings, change.changes.values(), strict=False):
            if setting is not None and text is not None and setting.listener not in names:
                message = f"Listener {setting.listener} is not a TLS listener of this broker"
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if not any(setting is not None or name in TLS for setting, name in zip(settings, changed, strict=True)):
            return
        for name in sorted(names):
            try:
                # If the file system does not respond, only the thread waits for it, not the request.
                async with asyncio.timeout(READ_S_MAX):
                    problem = await asyncio.get_running_loop().run_in_executor(None, _check_files, then, name)
            except TimeoutError:
                problem = f"cannot read its files within {READ_S_MAX:.0f} s"
            if problem is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"listener {name}: {problem}")

    def _topic(self, name: str) -> TopicImage:
        topic = self._view.image.topics.get(name)
        if topic is None:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Topics have no default settings. Name a topic.")
            check_topic_name(name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    def _stored(self, name: str) -> Mapping[str, str]:
        stored = self._view.image.broker_configs.get(name)
        return stored.config if stored is not None else {}


def _check_files(then: BrokerConfig, listener: str) -> str | None:
    """Return the reason why a listener cannot use its keystores; None if it can. Reads files."""
    try:
        listener_tls(then.listener_tls(listener)).check()
    except UnreadableFileError as problem:
        return problem.hidden
    except InvalidValue as problem:
        return str(problem)
    except ListenerError as problem:
        return problem.message
    return None


def _shown(change: ConfigChange) -> str:
    """Return a change as text for the log, without secrets."""
    sensitive = {name for name in change.changes if (key := broker_key(name)) is not None and key.sensitive}
    parts = [
        f"{name} removed" if text is None else f"{name}={'(hidden)' if name in sensitive else text}"
        for name, text in change.changes.items()
    ]
    return ", ".join(parts + (["all other settings removed"] if change.replace else []))
