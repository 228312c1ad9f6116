"""The settings of one broker. Dynamic settings (KIP-226) override the settings of the file and the command line."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import chain
from typing import Any

import msgspec

from pybroker.config import broker_oauth, broker_tls, broker_token, connection_overrides, single_node
from pybroker.config.broker_cluster import METADATA_STORE, QUORUM, RACK_AWARE, SHARED
from pybroker.config.broker_defs import BROKER_SETTINGS, SYNONYMS
from pybroker.config.broker_oauth import OAuthSettings
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.listener_addresses import (
    SECURITY_BETWEEN,
    Listener,
    VoterAddress,
    host_port,
    parse_listeners,
    parse_voters,
    protocol_map,
)
from pybroker.config.listener_settings import (
    JAAS,
    ListenerSecurity,
    connection_rates,
    listener_security,
    listener_setting,
    oauth_options,
)
from pybroker.config.protocol_version import PROTOCOL_VERSION, has_topic_ids
from pybroker.config.setting_values import ConfigError, ConfigKey, InvalidValue, Value, render_value


class ConfigSource(IntEnum):
    """The source of a value, with the codes of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


DYNAMIC = (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
"""In ascending precedence."""


class BrokerConfig(Mapping[str, Any]):
    """The effective broker settings. `config["num.partitions"]` is the typed value; `get_int` etc. also assert its
    type.

    The layers, in descending precedence: this broker's dynamic settings, the cluster's dynamic defaults, the file and
    command line, the table's defaults. Only `admin.configs` changes settings, by `set_dynamic` on the event loop's
    thread. Code must read a setting whenever it needs it, to use the new value. `load_config` and
    `admin.config_changes` have validated all texts before.
    """

    __slots__ = ("_layers", "_values", "listener_settings")

    def __init__(
        self, static: Mapping[str, str] | None = None, listener_settings: Mapping[str, str] | None = None
    ) -> None:
        self.listener_settings: Mapping[str, str] = dict(listener_settings or {})
        """The `listener.name.…` settings. They are static, and hidden from clients because some contain passwords."""
        self._layers: dict[ConfigSource, dict[str, str]] = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: {},
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: {},
            ConfigSource.STATIC_BROKER_CONFIG: dict(static or {}),
        }
        self._values: dict[str, Value] = _effective(self._layers)

    def set_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Replace the two dynamic layers."""
        self._layers = {
            ConfigSource.DYNAMIC_BROKER_CONFIG: dict(broker),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: dict(cluster),
            ConfigSource.STATIC_BROKER_CONFIG: self._layers[ConfigSource.STATIC_BROKER_CONFIG],
        }
        self._values = _effective(self._layers)

    def with_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """Return a copy with other dynamic settings. With the copy, a caller can check the effect of a change."""
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
        """Return an integer setting that always has a value."""
        value = self._values[name]
        assert type(value) is int, name
        return value

    def get_str(self, name: str) -> str:
        """Return a text setting that always has a value."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        """Return a list setting; empty if unset."""
        value = self._values[name]
        assert isinstance(value, tuple | None), name
        return value or ()

    @property
    def topic_ids(self) -> bool:
        """Whether `inter.broker.protocol.version` is a version with topic ids, which clients then see."""
        return has_topic_ids(self.get_str(PROTOCOL_VERSION))

    @property
    def in_cluster(self) -> bool:
        """Whether the broker shares the metadata with other brokers."""
        return self.get_str(METADATA_STORE) in SHARED

    @property
    def in_quorum(self) -> bool:
        """Whether the metadata is in a log that brokers replicate (a metadata quorum), not in ZooKeeper."""
        return self.get_str(METADATA_STORE) == QUORUM

    @property
    def voters(self) -> tuple[VoterAddress, ...]:
        """The voters with which the metadata quorum starts for the first time."""
        return parse_voters(self.get_list("controller.quorum.voters"))

    @property
    def quorum_bootstrap(self) -> tuple[tuple[str, int], ...]:
        """The addresses that a broker asks for the cluster when it starts for the first time."""
        return tuple(host_port(item) for item in self.get_list("controller.quorum.bootstrap.servers"))

    @property
    def joins_voters(self) -> bool:
        """Whether this broker offers itself as a voter of the metadata log."""
        if self.voters:
            return any(voter.node_id == self.broker_id for voter in self.voters)
        # Voters store each other's addresses, so a voter's port must not change.
        fixed = all(listener.port for listener in self.listeners if listener.name == self.between_brokers)
        return fixed and bool(self["controller.quorum.auto.join.enable"])

    @property
    def voters_wanted(self) -> int:
        """Return the target number of voters. While there are fewer voters, the leader of the metadata log promotes
        brokers."""
        return max(self.get_int("controller.quorum.voters.target"), len(self.voters))

    @property
    def between_brokers(self) -> str | None:
        """Return the name of the inter-broker listener; None on a single broker, which has none."""
        name = self["inter.broker.listener.name"]
        if not name and SECURITY_BETWEEN in self.layer(ConfigSource.STATIC_BROKER_CONFIG):
            name = self[SECURITY_BETWEEN]
        return str(name).upper() if self.in_cluster and name else None

    @property
    def broker_id(self) -> int:
        """Return the broker's id: node.id, or broker.id if only broker.id is given."""
        static = self.layer(ConfigSource.STATIC_BROKER_CONFIG)
        if "node.id" not in static and "broker.id" in static and self.get_int("broker.id") >= 0:
            return self.get_int("broker.id")
        return self.get_int("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Return the data directories as absolute paths. The first directory also contains the metadata store."""
        return tuple(os.path.abspath(path) for path in self.get_list("log.dirs") or self.get_list("log.dir"))

    @property
    def metadata_log_dir(self) -> str:
        """The data directory with the log of a metadata quorum."""
        named = self["metadata.log.dir"]
        return os.path.abspath(named) if named else self.log_dirs[0]

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """The data directories that get no new partitions."""
        named = self.get_list("cordoned.log.dirs")
        return self.log_dirs if "*" in named else tuple(os.path.abspath(path) for path in named)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The addresses to listen on; port 0 means a free port."""
        return parse_listeners(self.get_list("listeners"), protocol_map(self.get_str("listener.security.protocol.map")))

    def listener_security(self, listener: str) -> ListenerSecurity:
        """Return the SASL settings of a listener."""
        return listener_security(
            listener,
            self.listener_settings,
            self.get_list("sasl.enabled.mechanisms"),
            self.get_int("connections.max.reauth.ms"),
        )

    def listener_tls(self, listener: str) -> TlsSettings:
        """Return the TLS settings of a listener. Raises InvalidValue if they are invalid."""
        values = {name: self[name] for name in broker_tls.BY_NAME}
        dynamic = (self._layers[source].items() for source in DYNAMIC)
        for setting_name, text in (*self.listener_settings.items(), *chain.from_iterable(dynamic)):
            setting = listener_setting(setting_name)
            if setting is not None and setting.listener == listener and setting.name in values:
                values[setting.name] = broker_tls.BY_NAME[setting.name].parse(text)
        return broker_tls.tls_settings(values)

    def listener_oauth(self, listener: str) -> OAuthSettings | None:
        """Return the token validation of a SASL listener; None if it does not use OAUTHBEARER. Raises InvalidValue if a
        setting is invalid.
        """
        if broker_oauth.OAUTHBEARER not in self.listener_security(listener).mechanisms:
            return None
        values, options, _ = self._of_listener(listener, broker_oauth.BY_NAME)
        return broker_oauth.oauth_settings(values, options)

    def listener_token(self, listener: str) -> dict[str, str]:
        """Return the client settings with which this broker gets its own token for other brokers' listeners. Raises
        InvalidValue if a setting is invalid.
        """
        values, options, line = self._of_listener(listener, broker_token.BY_NAME)
        found = broker_token.token_settings(values, options)
        return found if line is None else {**found, JAAS: line}

    def _of_listener(
        self, listener: str, keys: Mapping[str, ConfigKey]
    ) -> tuple[dict[str, Value], Mapping[str, str], str | None]:
        """Return the OAUTHBEARER settings of one listener: the effective values, the login module's options, and its
        JAAS line.
        """
        values = {name: self[name] for name in keys}
        options: Mapping[str, str] = {}
        line: str | None = None
        found = [(listener_setting(setting_name), text) for setting_name, text in self.listener_settings.items()]
        # Settings of the mechanism take precedence over settings of the listener.
        for setting, text in sorted(found, key=lambda one: one[0] is not None and one[0].mechanism is not None):
            if setting is None or setting.listener != listener:
                continue
            if setting.name in values:
                values[setting.name] = keys[setting.name].parse(text)
            elif setting.name == JAAS and setting.mechanism == broker_oauth.OAUTHBEARER:
                options, line = oauth_options(text), text
        return values, options, line

    def advertised_listeners(self, bound: Iterable[tuple[str, str, int]]) -> tuple[Listener, ...]:
        """Return the advertised addresses. bound: the bound addresses as (name, host, port)."""
        protocols = protocol_map(self.get_str("listener.security.protocol.map"))
        configured = parse_listeners(self.get_list("advertised.listeners"), protocols, advertised=True)
        advertised = []
        for name, host, port in bound:
            wanted = next((listener for listener in configured if listener.name == name), None)
            if wanted is None:
                everywhere = host in ("", "0.0.0.0", "::")
                wanted = Listener(name, socket.gethostname() if everywhere else host, port, protocols[name])
            elif wanted.port == 0:
                # If advertised.listeners has port 0, advertise the port that the listener got.
                wanted = msgspec.structs.replace(wanted, port=port)
            advertised.append(wanted)
        return tuple(advertised)

    def first_of_family(self, name: str) -> tuple[str, Value] | None:
        """Return the effective member of the family of `name` (ms, minutes, hours …) and its value; None if all members
        are unset.

        The order within the family decides, not the layer: log.retention.ms overrides log.retention.hours, even if
        log.retention.ms is set in a lower layer.
        """
        for member in SYNONYMS.get(name, (name,)):
            value = self._values[member]
            if value is not None:
                return member, value
        return None

    def layer(self, source: ConfigSource) -> Mapping[str, str]:
        """Return the texts of one layer."""
        return self._layers[source]

    def occurrences(self, name: str) -> list[tuple[ConfigSource, str, str | None]]:
        """Return every (source, setting, text) for `name` or a synonym, in descending precedence. DescribeConfigs shows
        them as synonyms."""
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
        """Return all effective settings for native code, under Kafka's names; lists as comma-separated text.

        Adds four derived settings: `topic.ids` (from the protocol version), `metadata.quorum`, `replicas.by.rack` (from
        the selector's class) and `connection.rates.of.listeners`.
        """
        values = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in self._values.items()}
        by_rack = self["replica.selector.class"] == RACK_AWARE
        return {
            **values,
            "cordoned.log.dirs": ",".join(self.cordoned_log_dirs),
            connection_overrides.NAME: connection_overrides.by_address(self.get_str(connection_overrides.NAME)),
            "topic.ids": self.topic_ids,
            "metadata.quorum": self.in_quorum,
            "replicas.by.rack": by_rack,
            "connection.rates.of.listeners": connection_rates(self.listener_settings),
        }


def _parse(name: str, text: str) -> Value:
    try:
        return BROKER_SETTINGS[name].parse(text)
    except InvalidValue as problem:
        raise ConfigError(f"{name}={text}: {problem}") from None


def _default(name: str, *, in_cluster: bool) -> Value:
    """Return the default of a setting. It may be different on a single node."""
    if not in_cluster and name in single_node.REPLICAS:
        return single_node.BROKERS
    return BROKER_SETTINGS[name].default


def _effective(layers: Mapping[ConfigSource, Mapping[str, str]]) -> dict[str, Value]:
    """Return every setting with the value from the layer of highest precedence. Ignore names that this version does not
    know.
    """
    in_cluster = layers[ConfigSource.STATIC_BROKER_CONFIG].get(METADATA_STORE) in SHARED
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
