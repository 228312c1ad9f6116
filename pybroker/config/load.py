"""From server.properties and `--set key=value` to a BrokerConfig: every name known, every value checked, every
complaint one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pybroker.config import advice, foreign, one_node
from pybroker.config.broker_cluster import EMBEDDED, METADATA_STORE
from pybroker.config.broker_config import BrokerConfig, ConfigSource
from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.broker_login import MECHANISM, broker_login
from pybroker.config.broker_without_effect import WITHOUT_EFFECT
from pybroker.config.definition import nearest_name
from pybroker.config.group_defs import BEAT_BELOW_SESSION, OF_BROKER
from pybroker.config.listener_settings import PREFIX, check_listener_setting, listener_setting
from pybroker.config.listeners import parse_listeners, protocol_map
from pybroker.config.properties import PropertiesError, read_properties
from pybroker.config.topic_defs import check_resolved, resolve_topic_configs
from pybroker.config.values import ConfigError, InvalidValue, render_value

CHECKED_NAME = "ssl.endpoint.identification.algorithm"

PROPERTIES_BYTES_MAX = 1 << 20
"""Longer than any settings file: something else was named by mistake (a log, a device)."""


class Setting(NamedTuple):
    """One setting as it was given, and where, for the complaint: `server.properties line 7` or `--set`."""

    text: str
    where: str


class Loaded(NamedTuple):
    """A checked configuration, and what the log should say about it."""

    config: BrokerConfig
    warnings: list[str]


def load_config(
    file: str | os.PathLike[str] | None = None,
    assignments: Iterable[str] = (),
    settings: Mapping[str, object] | None = None,
) -> Loaded:
    """The configuration of a file (read as Java properties), over which go `settings`, over which go `key=value`
    assignments. Raises ConfigError.
    """
    given: dict[str, Setting] = {}
    if file is not None:
        given.update(_read_properties(os.fspath(file)))
    for name, value in (settings or {}).items():
        given[name] = Setting(_text_of(value), "settings")
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {assignment}: expected key=value")
        given[name.strip()] = Setting(text.strip(), "--set")
    return check_settings(given)


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _read_properties(path: str) -> dict[str, Setting]:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(PROPERTIES_BYTES_MAX + 1)
    except OSError as problem:
        raise ConfigError(f"{path}: cannot read the settings file: {problem.strerror}") from None
    if len(raw) > PROPERTIES_BYTES_MAX:
        raise ConfigError(f"{path}: longer than {PROPERTIES_BYTES_MAX} bytes; is this a settings file?")
    try:
        return {one.key: Setting(one.value.strip(), f"{path} line {one.line}") for one in read_properties(raw.decode())}
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file in UTF-8") from None
    except PropertiesError as problem:
        raise ConfigError(f"{path} line {problem.line}: {problem}") from None


def check_settings(given: Mapping[str, Setting]) -> Loaded:
    """The configuration that these settings make. Raises ConfigError for the first that is unknown, wrong or cannot be
    obeyed.
    """
    static: dict[str, str] = {}
    listener_settings: dict[str, str] = {}
    without_effect: list[str] = []
    for name, setting in given.items():
        key = BROKER_SETTINGS.get(name)
        of_listener = listener_setting(name)
        if of_listener is not None:
            try:
                check_listener_setting(of_listener, setting.text)
            except InvalidValue as problem:
                shown = "(hidden)" if of_listener.sensitive else setting.text
                raise ConfigError(f"{name}={shown} ({setting.where}): {problem}") from None
            listener_settings[name] = setting.text
            continue
        if key is None:
            _check_foreign(name, setting)
            without_effect.append(name)
            continue
        try:
            static[name] = render_value(key.parse(setting.text)) or ""
        except InvalidValue as problem:
            shown = "(hidden)" if key.sensitive else setting.text
            raise ConfigError(f"{name}={shown} ({setting.where}): {problem}") from None
    without_effect += [key.name for key in WITHOUT_EFFECT if key.name in static]
    _drop_controller_listeners(static, given)
    cut = one_node.fit(static) if static.get(METADATA_STORE, EMBEDDED) == EMBEDDED else None
    config = BrokerConfig(static, listener_settings)
    _check_together(config, given)
    return Loaded(config, [*([cut] if cut else []), *advice.warnings(config, without_effect)])


def _check_foreign(name: str, setting: Setting) -> None:
    remedy = foreign.refusal(name, setting.text)
    if remedy is not None:
        shown = "(hidden)" if foreign.is_secret(name) else setting.text
        raise ConfigError(f"{name}={shown} ({setting.where}): {remedy}")
    if foreign.is_foreign(name):
        return
    nearest = nearest_name(name, [*BROKER_SETTINGS, *foreign.HARMLESS, *foreign.REFUSED])
    hint = f"; did you mean {nearest}?" if nearest else ", neither of this broker nor of Apache Kafka"
    raise ConfigError(f"{name} ({setting.where}): unknown setting{hint}")


def _drop_controller_listeners(static: dict[str, str], given: Mapping[str, Setting]) -> None:
    """Kafka's sample file opens a listener for the KRaft controller; here the controller is part of the process and
    needs none.
    """
    names = given.get("controller.listener.names")
    if names is None:
        return
    controllers = {name.strip().upper() for name in names.text.split(",")}
    for setting in ("listeners", "advertised.listeners"):
        if setting in static:
            kept = [
                item
                for item in static[setting].split(",")
                if item.partition("://")[0].strip().upper() not in controllers
            ]
            if not kept:
                where = f"{setting}={given[setting].text} ({given[setting].where})"
                raise ConfigError(f"{where}: only controllers are named; clients need a listener too")
            static[setting] = ",".join(kept)


def _check_store(
    config: BrokerConfig, given: Mapping[str, Setting], listeners: set[str], fail: Callable[[str, object], ConfigError]
) -> None:
    if not config.in_cluster:
        if "zookeeper.connect" in given:
            raise fail(
                "zookeeper.connect",
                "this broker keeps its metadata in its first data directory; remove the line, or let it join a cluster "
                "with metadata.store=zookeeper",
            )
        return
    if not config["zookeeper.connect"]:
        raise fail(METADATA_STORE, "zookeeper.connect is missing; add zookeeper.connect=host:port")
    if config.between_brokers is None or len(listeners) < 2:
        raise fail(
            METADATA_STORE,
            "brokers need a listener of their own, where no client is served; name one more in listeners and "
            "listener.security.protocol.map, as REPLICATION://host:port and REPLICATION:PLAINTEXT, and add "
            "inter.broker.listener.name=REPLICATION",
        )
    between = next(one for one in config.listeners if one.name == config.between_brokers)
    for name in (CHECKED_NAME, f"{PREFIX}{between.name.lower()}.{CHECKED_NAME}"):
        if between.protocol.endswith("SSL") and name in given and given[name].text.lower() != "https":
            told = "brokers check each other's certificates against their names; remove the line"
            raise ConfigError(f"{name}={given[name].text} ({given[name].where}): {told}")
    try:
        login = broker_login(config)
    except InvalidValue as problem:
        raise fail("inter.broker.listener.name", problem) from None
    if login.mechanism or login.certified or advice.is_loopback(between.host):
        return
    guarded = "there is an authorizer" if config.get_str("authorizer.class.name") else "clients have to log in"
    if config.get_str("authorizer.class.name") or any(one.protocol.startswith("SASL_") for one in config.listeners):
        raise fail(
            "inter.broker.listener.name",
            f"whoever reaches {between} acts as a broker, while {guarded}; map it to SSL and set "
            f"ssl.client.auth=required, map it to SASL_SSL or SASL_PLAINTEXT and set {MECHANISM}, or give it "
            "a loopback address",
        )


def _check_together(config: BrokerConfig, given: Mapping[str, Setting]) -> None:
    def fail(name: str, problem: object) -> ConfigError:
        where = f" ({given[name].where})" if name in given else ""
        return ConfigError(f"{name}={render_value(config[name])}{where}: {problem}")

    static = config.layer(ConfigSource.STATIC_BROKER_CONFIG)
    if "node.id" in static and config["broker.id"] not in (None, -1, config["node.id"]):
        raise fail("broker.id", f"node.id={config['node.id']} says otherwise; remove one of the two")
    try:
        protocols = protocol_map(config.get_str("listener.security.protocol.map"))
    except InvalidValue as problem:
        raise fail("listener.security.protocol.map", problem) from None
    try:
        listeners = parse_listeners(config.get_list("listeners"), protocols)
    except InvalidValue as problem:
        raise fail("listeners", problem) from None
    for listener in listeners:
        try:
            if listener.protocol.endswith("SSL"):
                config.listener_tls(listener.name)
            if listener.protocol.startswith("SASL_"):
                config.listener_oauth(listener.name)
        except InvalidValue as problem:
            raise fail("listeners", f"listener {listener.name} speaks {listener.protocol}: {problem}") from None
    names = {listener.name for listener in listeners}
    try:
        advertised = parse_listeners(config.get_list("advertised.listeners"), protocols)
    except InvalidValue as problem:
        raise fail("advertised.listeners", problem) from None
    for listener in advertised:
        if listener.name not in names:
            raise fail("advertised.listeners", f"listener {listener.name} is not among listeners")
        if listener.host in ("", "0.0.0.0", "::"):
            host = listener.host or "an empty host"
            raise fail("advertised.listeners", f"clients cannot connect to {host}; name the address they should use")
    inter_broker = config["inter.broker.listener.name"]
    if inter_broker is not None and str(inter_broker).upper() not in names:
        raise fail("inter.broker.listener.name", "not among listeners")
    _check_store(config, given, names, fail)
    # An empty list is what an unset variable leaves: with the default the broker would start without its data.
    if "log.dirs" in given and not config.get_list("log.dirs"):
        raise fail("log.dirs", "no directory is named; name one or remove the line")
    directories = config.log_dirs
    if not all(config.get_list("log.dirs") or config.get_list("log.dir")):
        raise fail("log.dirs", "a directory is missing between two commas")
    if len(set(directories)) != len(directories):
        raise fail("log.dirs", "a directory is named twice")
    _check_groups(config, fail)
    check_resolved(resolve_topic_configs({}, config))


def _check_groups(config: BrokerConfig, fail: Callable[[str, object], ConfigError]) -> None:
    if config.get_int("group.min.session.timeout.ms") > config.get_int("group.max.session.timeout.ms"):
        raise fail("group.min.session.timeout.ms", "above group.max.session.timeout.ms")
    for name, low, high in (broker for broker in OF_BROKER.values() if broker.low or broker.high):
        if low is not None and config.get_int(name) < config.get_int(low):
            raise fail(name, f"below {low}")
        if high is not None and config.get_int(name) > config.get_int(high):
            raise fail(name, f"above {high}")
    for beat, session in BEAT_BELOW_SESSION:
        name, below = OF_BROKER[beat].default, OF_BROKER[session].default
        if config.get_int(name) >= config.get_int(below):
            raise fail(name, f"not below {below}")
