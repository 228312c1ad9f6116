"""The settings of one broker: what the file and the command line said, under what was changed while it runs
(KIP-226).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import chain
from typing import Any

import msgspec

from pybroker.config import broker_oauth, broker_tls, broker_token, connection_overrides, one_node
from pybroker.config.broker_cluster import METADATA_STORE, RACK_AWARE, ZOOKEEPER
from pybroker.config.broker_defs import BROKER_SETTINGS, SYNONYMS
from pybroker.config.broker_oauth import OAuthSettings
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.listener_settings import (
    JAAS,
    ListenerSecurity,
    connection_rates,
    listener_security,
    listener_setting,
    oauth_options,
)
from pybroker.config.listeners import SECURITY_BETWEEN, Listener, parse_listeners, protocol_map
from pybroker.config.protocol_version import PROTOCOL_VERSION, has_topic_ids
from pybroker.config.values import ConfigError, ConfigKey, InvalidValue, Value, render_value


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs puts it on the wire."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


DYNAMIC = (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
"""The weaker one first."""


class BrokerConfig(Mapping[str, Any]):
    """The broker settings in force. `config["num.partitions"]` is the typed value; `get_int` and its like say of which
    type.

    The layers, strongest first: this broker's dynamic settings, the cluster's dynamic defaults, the file and command
    line, the table's defaults. Nobody changes settings but `admin.configs`, on the loop's thread, by `set_dynamic`;
    whoever reads a setting each time it matters follows. All texts given here were checked before (see `load` and
    `admin.config_changes`).
    """

    __slots__ = ("_layers", "_values", "listener_settings")

    def __init__(
        self, static: Mapping[str, str] | None = None, listener_settings: Mapping[str, str] | None = None
    ) -> None:
        self.listener_settings: Mapping[str, str] = dict(listener_settings or {})
        """The `listener.name.…` settings, static and not shown to clients: some hold passwords."""
        self._layers: dict[ConfigSource, dict[str, str]] = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: {},
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: {},
            ConfigSource.STATIC_BROKER_CONFIG: dict(static or {}),
        }
        self._values: dict[str, Value] = _effective(self._layers)

    def set_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Replaces the two dynamic layers."""
        self._layers = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: dict(broker),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: dict(cluster),
            ConfigSource.STATIC_BROKER_CONFIG: self._layers[ConfigSource.STATIC_BROKER_CONFIG],
        }
        self._values = _effective(self._layers)

    def with_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """A copy under other dynamic settings, to see what they would come to."""
        copy = BrokerConfig(self._layers[ConfigSource.STATIC_BROKER_CONFIG], self.listener_settings)
        copy.set_dynamic(cluster=cluster, broker=broker)
        return copy

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_int(self, name: str) -> int:
        """The value of a setting that is a whole number and is never unset."""
        value = self._values[name]
        assert type(value) is int, name
        return value

    def get_str(self, name: str) -> str:
        """The value of a setting that is a text and is never unset."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        """The value of a list; an unset one is empty."""
        value = self._values[name]
        assert isinstance(value, tuple | None), name
        return value or ()

    @property
    def topic_ids(self) -> bool:
        """Whether `inter.broker.protocol.version` gives topics ids that clients see."""
        return has_topic_ids(self.get_str(PROTOCOL_VERSION))

    @property
    def in_cluster(self) -> bool:
        """Whether the metadata is shared with other brokers."""
        return self.get_str(METADATA_STORE) == ZOOKEEPER

    @property
    def between_brokers(self) -> str | None:
        """Name of the listener where only brokers talk; None where there is none: one node has nobody to talk to."""
        name = self["inter.broker.listener.name"]
        if not name and SECURITY_BETWEEN in self.layer(ConfigSource.STATIC_BROKER_CONFIG):
            name = self[SECURITY_BETWEEN]
        return str(name).upper() if self.in_cluster and name else None

    @property
    def broker_id(self) -> int:
        """This broker's number: node.id, or broker.id where only that is given."""
        static = self.layer(ConfigSource.STATIC_BROKER_CONFIG)
        if "node.id" not in static and "broker.id" in static and self.get_int("broker.id") >= 0:
            return self.get_int("broker.id")
        return self.get_int("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The data directories as absolute paths; the first one also holds the metadata store."""
        return tuple(os.path.abspath(path) for path in self.get_list("log.dirs") or self.get_list("log.dir"))

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """Those of the data directories that get no new partitions."""
        named = self.get_list("cordoned.log.dirs")
        return self.log_dirs if "*" in named else tuple(os.path.abspath(path) for path in named)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Where to listen; a port 0 stands for a free one."""
        return parse_listeners(self.get_list("listeners"), protocol_map(self.get_str("listener.security.protocol.map")))

    def listener_security(self, listener: str) -> ListenerSecurity:
        """What SASL does on a listener."""
        return listener_security(
            listener,
            self.listener_settings,
            self.get_list("sasl.enabled.mechanisms"),
            self.get_int("connections.max.reauth.ms"),
        )

    def listener_tls(self, listener: str) -> TlsSettings:
        """What a listener with TLS shows and whom it trusts. Raises InvalidValue."""
        values = {name: self[name] for name in broker_tls.BY_NAME}
        dynamic = (self._layers[source].items() for source in DYNAMIC)
        for given, text in (*self.listener_settings.items(), *chain.from_iterable(dynamic)):
            setting = listener_setting(given)
            if setting is not None and setting.listener == listener and setting.name in values:
                values[setting.name] = broker_tls.BY_NAME[setting.name].parse(text)
        return broker_tls.tls_settings(values)

    def listener_oauth(self, listener: str) -> OAuthSettings | None:
        """How tokens are checked on a listener with SASL; None where OAUTHBEARER is not enabled. Raises
        InvalidValue."""
        if broker_oauth.OAUTHBEARER not in self.listener_security(listener).mechanisms:
            return None
        values, options, _ = self._of_listener(listener, broker_oauth.BY_NAME)
        return broker_oauth.oauth_settings(values, options)

    def listener_token(self, listener: str) -> dict[str, str]:
        """A client's settings: where this broker has the token from that it shows on a listener of others. Raises
        InvalidValue."""
        values, options, line = self._of_listener(listener, broker_token.BY_NAME)
        found = broker_token.token_settings(values, options)
        return found if line is None else {**found, JAAS: line}

    def _of_listener(
        self, listener: str, keys: Mapping[str, ConfigKey]
    ) -> tuple[dict[str, Value], Mapping[str, str], str | None]:
        """For one listener and OAUTHBEARER: what is in force, and the login module's options, and its line."""
        values = {name: self[name] for name in keys}
        options: Mapping[str, str] = {}
        line: str | None = None
        found = [(listener_setting(given), text) for given, text in self.listener_settings.items()]
        # What is set for the mechanism counts more than what is set for the listener.
        for setting, text in sorted(found, key=lambda one: one[0] is not None and one[0].mechanism is not None):
            if setting is None or setting.listener != listener:
                continue
            if setting.name in values:
                values[setting.name] = keys[setting.name].parse(text)
            elif setting.name == JAAS and setting.mechanism == broker_oauth.OAUTHBEARER:
                options, line = oauth_options(text), text
        return values, options, line

    def advertised_listeners(self, bound: Iterable[tuple[str, str, int]]) -> tuple[Listener, ...]:
        """What clients are told, given the addresses that were bound, as (name, host, port)."""
        protocols = protocol_map(self.get_str("listener.security.protocol.map"))
        told = parse_listeners(self.get_list("advertised.listeners"), protocols, advertised=True)
        advertised = []
        for name, host, port in bound:
            wanted = next((one for one in told if one.name == name), None)
            if wanted is None:
                everywhere = host in ("", "0.0.0.0", "::")
                wanted = Listener(name, socket.gethostname() if everywhere else host, port, protocols[name])
            elif wanted.port == 0:
                # Port 0 in advertised.listeners: the port that the listener got.
                wanted = msgspec.structs.replace(wanted, port=port)
            advertised.append(wanted)
        return tuple(advertised)

    def first_of_family(self, name: str) -> tuple[str, Value] | None:
        """The member of the family of `name` (ms, minutes, hours …) that is in force, and its value; None if all are
        unset.

        A family is read from its strongest member down, so that log.retention.ms beats log.retention.hours wherever
        each was set.
        """
        for member in SYNONYMS.get(name, (name,)):
            value = self._values[member]
            if value is not None:
                return member, value
        return None

    def layer(self, source: ConfigSource) -> Mapping[str, str]:
        """The texts that one layer sets."""
        return self._layers[source]

    def occurrences(self, name: str) -> list[tuple[ConfigSource, str, str | None]]:
        """Every (source, setting, text) that speaks about `name` or a synonym of it, strongest first:
        DescribeConfigs' synonyms.
        """
        family = SYNONYMS.get(name, (name,))
        found: list[tuple[ConfigSource, str, str | None]] = [
            (source, member, layer[member])
            for source, layer in self._layers.items()
            for member in family
            if member in layer
        ]
        for member in family:
            default = _default(member, in_cluster=self.in_cluster)
            if default is not None:
                found.append((ConfigSource.DEFAULT_CONFIG, member, render_value(default)))
        return found

    def native_settings(self) -> dict[str, int | float | str | bool | None]:
        """Every setting in force under Kafka's name, as native code takes them: lists as comma-separated text; and
        `topic.ids`, what the protocol version comes to, `replicas.by.rack`, what the selector's class does, and
        `connection.rates.of.listeners`.
        """
        values = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in self._values.items()}
        by_rack = self["replica.selector.class"] == RACK_AWARE
        return {
            **values,
            "cordoned.log.dirs": ",".join(self.cordoned_log_dirs),
            connection_overrides.NAME: connection_overrides.by_address(self.get_str(connection_overrides.NAME)),
            "topic.ids": self.topic_ids,
            "replicas.by.rack": by_rack,
            "connection.rates.of.listeners": connection_rates(self.listener_settings),
        }


def _parse(name: str, text: str) -> Value:
    try:
        return BROKER_SETTINGS[name].parse(text)
    except InvalidValue as problem:
        raise ConfigError(f"{name}={text}: {problem}") from None


def _default(name: str, *, in_cluster: bool) -> Value:
    """What holds where nothing is said."""
    if not in_cluster and name in one_node.REPLICAS:
        return one_node.BROKERS
    return BROKER_SETTINGS[name].default


def _effective(layers: Mapping[ConfigSource, Mapping[str, str]]) -> dict[str, Value]:
    """The value of every setting: of the strongest layer that has it. Names that this version does not know are passed
    over.
    """
    in_cluster = layers[ConfigSource.STATIC_BROKER_CONFIG].get(METADATA_STORE) == ZOOKEEPER
    values: dict[str, Value] = {name: _default(name, in_cluster=in_cluster) for name in BROKER_SETTINGS}
    for source in (
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
    ):
        for name, text in layers[source].items():
            if name in BROKER_SETTINGS:
                values[name] = _parse(name, text)
    return values
