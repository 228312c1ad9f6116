"""Computes the changes of a request that alters settings: applies operations to the current settings and checks the
rules for topics, groups, brokers and loggers. Pure.

Kafka's semantics: ConfigAdminManager, DynamicBrokerConfig, RuntimeLoggerManager (KIP-226, KIP-339, KIP-412).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

import msgspec

from pybroker.broker.metadata.metadata_store import VALUE_BYTES_MAX
from pybroker.broker.metadata.znodes import encode_config
from pybroker.config import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigError,
    ConfigKey,
    ConfigType,
    InvalidValue,
    Scope,
    check_group_configs,
    check_resolved,
    foreign_settings,
    nearest_name,
    render_value,
    resolve_topic_configs,
    single_node,
    validate_client_metrics_config,
    validate_group_config,
    validate_topic_configs,
)
from pybroker.config.broker_defs import broker_key
from pybroker.config.protocol_version import PROTOCOL_VERSION, check_protocol_version, has_topic_ids
from pybroker.config.topic_defs import broker_default
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class ResourceType(IntEnum):
    """Types of resources with settings, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class OpType(IntEnum):
    """Operations of IncrementalAlterConfigs, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOp(msgspec.Struct, frozen=True):
    """One operation. `op` is the number in the request, which may be unknown."""

    name: str
    op: int
    value: str | None


class ResourceOps(msgspec.Struct, frozen=True):
    """The operations of a request on one resource. If `replace` is true (AlterConfigs), settings that the operations do
    not name are removed.
    """

    resource_type: int
    resource_name: str
    ops: tuple[ConfigOp, ...]
    replace: bool = False
    topic_id: Uuid | None = None
    """None: the request names the topic by name."""


def check_request(resources: Sequence[ResourceOps]) -> Iterator[KafkaError | None]:
    """Yield an error for each resource that can be refused without a lookup: the request names a resource or setting
    twice, or a value is missing.
    """
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return (_check_shape(resource, times[resource.resource_type, resource.resource_name]) for resource in resources)


def _check_shape(resource: ResourceOps, times: int) -> KafkaError | None:
    if times > 1:
        return _refused("Each resource must appear at most once.")
    if resource.resource_type not in ResourceType.__members__.values():
        return _refused(f"Resource type {resource.resource_type} has no settings in this broker.")
    names = Counter(op.name for op in resource.ops)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        return _refused(f"Error due to duplicate config keys: {', '.join(twice)}")
    unknown = sorted({op.op for op in resource.ops if op.op not in OpType.__members__.values()})
    if unknown:
        return _refused(f"Unknown config operation {unknown[0]}.")
    null = sorted(op.name for op in resource.ops if op.value is None and op.op != OpType.DELETE)
    if null:
        return _refused(f"Null value not supported for: {', '.join(null)}")
    return None


def topic_changes(resource: ResourceOps, current: Mapping[str, str], config: BrokerConfig) -> dict[str, str | None]:
    """Return the change of a topic's own settings: name → new text, None to remove. Raises KafkaError (INVALID_CONFIG).

    `current` has the topic's own settings. If a list is not among them, APPEND and SUBTRACT change the default list.
    """
    changes: dict[str, str | None] = {}
    for op in resource.ops:
        if op.op == OpType.DELETE:
            changes[op.name] = None
            continue
        text = _new_text(op, current, lambda name: broker_default(name, config), TOPIC_SETTINGS)
        try:
            valid = validate_topic_configs({op.name: text})
        except ConfigError as problem:
            raise _invalid(str(problem)) from None
        # Accept settings of Kafka that have no effect in pybroker, but do not store them.
        changes.update(valid)
    after = {} if resource.replace else {name: text for name, text in current.items() if name not in changes}
    after.update({name: text for name, text in changes.items() if text is not None})
    try:
        check_resolved(resolve_topic_configs(after, config))
    except ConfigError as problem:
        raise _invalid(str(problem)) from None
    check_stored_size(after)
    return changes


def group_changes(resource: ResourceOps, current: Mapping[str, str], config: BrokerConfig) -> dict[str, str | None]:
    """Return the change of a group's own settings: name → new text, None to remove. `current` has the settings of the
    group itself. Raises KafkaError (INVALID_CONFIG)."""
    changes: dict[str, str | None] = {}
    try:
        for op in resource.ops:
            if op.op == OpType.DELETE:
                changes[op.name] = None
            else:
                changes[op.name] = validate_group_config(op.name, _new_text(op, current, lambda _: "", GROUP_SETTINGS))
        after = {} if resource.replace else {name: text for name, text in current.items() if name not in changes}
        after.update({name: text for name, text in changes.items() if text is not None})
        check_group_configs(after, config)
    except ConfigError as problem:
        raise _invalid(str(problem)) from None
    return changes


def client_metrics_changes(resource: ResourceOps, current: Mapping[str, str]) -> dict[str, str | None]:
    """Return the change of a client metrics subscription: name → new text, None to remove. Raises KafkaError
    (INVALID_REQUEST, INVALID_CONFIG; ClientMetricsConfigs)."""
    if resource.resource_name == "":
        raise _refused("Subscription name can't be empty")
    changes: dict[str, str | None] = {}
    for op in resource.ops:
        key = CLIENT_METRICS_SETTINGS.get(op.name)
        if key is None:
            raise _refused(f"Unknown client metrics configuration: {op.name}")
        if op.op == OpType.DELETE:
            changes[op.name] = None
            continue
        text = _new_text(op, current, lambda _: "", CLIENT_METRICS_SETTINGS)
        try:
            changes[op.name] = validate_client_metrics_config(op.name, text)
        except InvalidValue as problem:
            raise _refused(f"Invalid value {text} for {op.name}: {problem}") from None
        except ConfigError as problem:
            raise _invalid(str(problem)) from None
    after = {} if resource.replace else {name: text for name, text in current.items() if name not in changes}
    check_stored_size({**after, **{name: text for name, text in changes.items() if text is not None}})
    return changes


def check_group_name(name: str) -> None:
    """Refuse an empty group name: defaults for all groups are broker settings. Raises KafkaError."""
    if name == "":
        raise _refused("The resource name is empty. Set it to the group id.")


def check_stored_size(config: Mapping[str, str]) -> None:
    """Refuse settings that are too large for the metadata store, which keeps all settings of a topic or broker in one
    value. Raises KafkaError (INVALID_CONFIG, as in Kafka).
    """
    size = len(encode_config(config))
    if size > VALUE_BYTES_MAX:
        raise _invalid(
            f"The settings of a topic or broker may take {VALUE_BYTES_MAX} bytes in the metadata store. These "
            f"would take {size}."
        )


def broker_changes(resource: ResourceOps, current: Mapping[str, str], config: BrokerConfig) -> dict[str, str | None]:
    """Return the change of a broker's dynamic settings; an empty resource name changes the cluster's defaults. Raises
    KafkaError."""
    per_cluster = resource.resource_name == ""
    for op in resource.ops:
        _check_list_operation(op, BROKER_SETTINGS.get(op.name))
    fixed = sorted(op.name for op in resource.ops if op.op != OpType.DELETE and _is_fixed(op.name))
    if fixed:
        raise _refused(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    changes: dict[str, str | None] = {}
    for op in resource.ops:
        key = broker_key(op.name)
        if op.op == OpType.DELETE and (op.name in current or _is_fixed(op.name)):
            changes[op.name] = None  # The setting is not set, or an older release that knew the setting has stored it.
            continue
        if op.op == OpType.DELETE and (key is None or (per_cluster and key.scope is Scope.PER_BROKER)):
            continue  # As in Kafka, deleting a setting that this resource cannot have is not an error.
        if key is None:
            nearest = nearest_name(op.name, BROKER_SETTINGS)
            hint = f"; did you mean {nearest}?" if nearest else ""
            raise _invalid(f"unknown broker setting {op.name}{hint}")
        if op.name == PROTOCOL_VERSION:
            _check_protocol_version(op, per_cluster)
        if per_cluster and key.scope is Scope.PER_BROKER:
            raise _refused(f"Cannot update these configs at default cluster level: {op.name} belongs to one broker.")
        if op.op == OpType.DELETE:
            changes[op.name] = None
            continue
        text = _new_text(op, current, lambda name: render_value(config.get(name)) or "", {op.name: key})
        try:
            changes[op.name] = rendered = render_value(key.parse(text)) or ""
        except InvalidValue as problem:
            shown = "(hidden)" if key.sensitive else text
            raise _refused(f"Invalid value {shown} for configuration {op.name}: {problem}") from None
        alone = None if config.in_cluster else single_node.problem(op.name, rendered)
        if alone is not None:
            raise _invalid(f"{op.name}={text}: {alone}")
    return changes


def _is_fixed(name: str) -> bool:
    """Return whether the setting is known but no request can change it."""
    key = broker_key(name)
    return foreign_settings.is_foreign(name) if key is None else key.scope is Scope.READ_ONLY


def _check_protocol_version(op: ConfigOp, per_cluster: bool) -> None:
    """Refuse a version that is lower, and a version for a single broker. The stored value overrides the configuration
    file at each start, so a lower version would take effect at the next start."""
    if not per_cluster:
        raise _refused(f"{op.name} can only be set for all brokers at once. Use an empty resource name.")
    if op.op != OpType.SET:
        return
    try:
        check_protocol_version(op.value)
    except InvalidValue as problem:
        raise _invalid(f"{op.name}={op.value}: {problem}") from None
    if not has_topic_ids(op.value or ""):
        raise _invalid(f"{op.name}={op.value}: while brokers run, it can only be raised, to 2.8 or later.")


def logger_changes(
    resource: ResourceOps, levels: Iterable[str], exists: Callable[[str], bool]
) -> dict[str, str | None]:
    """Return the change of logger levels (KIP-412): logger → level, None to inherit again. Raises KafkaError."""
    if resource.replace:
        raise _refused("AlterConfigs is not allowed for broker loggers; use IncrementalAlterConfigs.")
    allowed = sorted(levels)
    changes: dict[str, str | None] = {}
    for op in resource.ops:
        if op.op not in (OpType.SET, OpType.DELETE):
            raise _refused(f"{OpType(op.op).name} operation is not allowed for the BROKER_LOGGER resource")
        if not exists(op.name):
            raise _invalid(f"Logger {op.name} does not exist!")
        if op.op == OpType.DELETE:
            if op.name == "root":
                raise _refused("Removing the log level of the root logger is not allowed")
            changes[op.name] = None
            continue
        if op.value not in allowed:
            raise _invalid(
                f"Cannot set the log level of {op.name} to {op.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(allowed)}"
            )
        changes[op.name] = op.value
    return changes


def check_broker_name(name: str, broker_id: int) -> None:
    """Refuse a request for the settings of another broker. An empty name, which means all brokers, is accepted. Raises
    KafkaError."""
    if name == "":
        return
    try:
        asked = int(name)
    except ValueError:
        asked = None
    if asked is None or name != name.strip():  # Kafka's Integer.valueOf refuses spaces, which Python's int accepts.
        raise _refused(f"Node id must be an integer, but it is: {name}")
    if asked != broker_id:
        raise _refused(f"Unexpected broker id, expected {broker_id} or empty string, but received {name}")


def _check_list_operation(op: ConfigOp, key: ConfigKey | None) -> None:
    """Refuse APPEND and SUBTRACT for settings that are unknown or not lists. Raises KafkaError (INVALID_CONFIG)."""
    if op.op not in (OpType.APPEND, OpType.SUBTRACT):
        return
    if key is None or key.type is not ConfigType.LIST:
        raise _invalid(f"Can't {OpType(op.op).name} to key {op.name} because its type is not LIST.")


def _new_text(
    op: ConfigOp, current: Mapping[str, str], default: Callable[[str], str], table: Mapping[str, ConfigKey]
) -> str:
    """Return the text after SET, APPEND or SUBTRACT, before its validation."""
    value = op.value or ""
    if op.op == OpType.SET:
        return value
    _check_list_operation(op, table.get(op.name))
    items = [item for item in current.get(op.name, default(op.name)).split(",") if item]
    listed = [item.strip() for item in value.split(",")]
    while value and listed and not listed[-1]:
        listed.pop()  # As in Kafka (Java's split), only an empty value yields an empty item.
    if op.op == OpType.APPEND:
        items += [item for item in listed if item not in items]
    else:
        items = [item for item in items if item not in listed]
    return ",".join(items)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
