"""Checks of settings against each other. Each setting has already passed its own checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pybroker.config import connection_overrides
from pybroker.config.broker_cluster import BOOTSTRAP, METADATA_STORE, QUORUM
from pybroker.config.broker_config import BrokerConfig, ConfigSource
from pybroker.config.broker_login import MECHANISM, broker_login
from pybroker.config.group_defs import BEAT_BELOW_SESSION, OF_BROKER
from pybroker.config.listener_addresses import SECURITY_BETWEEN, Listener, is_loopback, parse_listeners, protocol_map
from pybroker.config.listener_settings import PREFIX
from pybroker.config.protocol_version import PROTOCOL_VERSION
from pybroker.config.setting_values import ConfigError, InvalidValue
from pybroker.config.topic_defs import check_resolved, resolve_topic_configs
from pybroker.native import NativeBroker

CHECKED_NAME = "ssl.endpoint.identification.algorithm"
BETWEEN = "inter.broker.listener.name"
VOTERS = "controller.quorum.voters"
ADVERTISED = "advertised.listeners"
CONTROLLERS = "controller.listener.names"
PROTOCOL_MAP = "listener.security.protocol.map"
PER_ADDRESS = "max.connections.per.ip"
CLEANER_MEMORY = "log.cleaner.dedupe.buffer.size"

Problems = Iterator[tuple[str, str]]
"""(setting, problem with its value)"""
Check = Callable[[BrokerConfig, Mapping[str, str]], Problems]


def inconsistencies(
    config: BrokerConfig, texts: Mapping[str, str], failed: set[str]
) -> Iterator[tuple[str | None, str]]:
    """Yield each problem with the setting to name in the error; None if the problem's text already names its settings.

    texts: texts of all settings as they were given. failed: settings that already have a problem; further checks of
    their values would only repeat it.
    """
    if not failed.isdisjoint((PROTOCOL_MAP, "listeners")):
        checks = _WITHOUT_LISTENERS
    else:
        listeners = list(_listeners(config, texts))
        yield from listeners
        failed = failed | {name for name, _ in listeners}
        checks = _WITHOUT_LISTENERS if listeners else _CHECKS
    if any("ssl." in name or "sasl." in name for name in failed):
        checks = tuple(check for check in checks if check not in (_security_of_listeners, _store))
    for check in checks:
        yield from ((name, problem) for name, problem in check(config, texts) if name not in failed)
    try:
        check_resolved(resolve_topic_configs({}, config))
        NativeBroker.check_settings(config.native_settings())
    except (ConfigError, ValueError) as problem:
        yield None, str(problem)


def _listeners(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    try:
        protocols = protocol_map(config.get_str(PROTOCOL_MAP))
    except InvalidValue as problem:
        yield PROTOCOL_MAP, str(problem)
        return
    try:
        parse_listeners(config.get_list("listeners"), protocols)
    except InvalidValue as problem:
        yield "listeners", str(problem)


def _security_of_listeners(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    for listener in config.listeners:
        try:
            if listener.protocol.endswith("SSL"):
                config.listener_tls(listener.name)
            if listener.protocol.startswith("SASL_"):
                config.listener_oauth(listener.name)
        except InvalidValue as problem:
            yield "listeners", f"listener {listener.name} uses {listener.protocol}: {problem}"


def _advertised(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    try:
        protocols = protocol_map(config.get_str(PROTOCOL_MAP))
    except InvalidValue:
        return
    try:
        advertised = parse_listeners(config.get_list(ADVERTISED), protocols, advertised=True)
    except InvalidValue as problem:
        yield ADVERTISED, str(problem)
        return
    names = _names(config)
    for listener in advertised:
        if names is not None and listener.name not in names:
            yield ADVERTISED, f"listener {listener.name} is not in listeners"
        elif listener.host in ("", "0.0.0.0", "::"):
            host = listener.host or "an empty host"
            yield ADVERTISED, f"clients cannot connect to {host}; use the host name or address of this broker"


def _names(config: BrokerConfig) -> set[str] | None:
    """Return the names of the listeners; None if `listeners` is invalid."""
    try:
        return {listener.name for listener in config.listeners}
    except InvalidValue:
        return None


def _alone(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    """Check settings that only a cluster can have."""
    if config.in_cluster:
        return
    # A single address is the address of this process, as in Kafka's sample file.
    for name in (VOTERS, BOOTSTRAP):
        if "," in texts.get(name, ""):
            yield (
                name,
                f"a single broker has no other voters; set metadata.store={QUORUM}{_and_listener(texts)}, or remove "
                "the line",
            )
    if len(config.voters) == 1 and config.voters[0].node_id != config.broker_id:
        yield (
            VOTERS,
            (
                f"the voter is another node, and this is node {config.broker_id}; remove the line, or set "
                f"metadata.store={QUORUM}{_and_listener(texts)}"
            ),
        )
    if texts.get("zookeeper.connect"):
        yield (
            "zookeeper.connect",
            (
                "this broker keeps its metadata in its first data directory; remove the line, or make it join a "
                "cluster with metadata.store=zookeeper and a listener for brokers (inter.broker.listener.name)"
            ),
        )


def _and_listener(texts: Mapping[str, str]) -> str:
    """Return the settings that a file for Kafka's controllers needs in addition to `metadata.store=quorum`. The
    addresses of its voters belong to the controllers' listener."""
    name = _of_controllers(texts)
    return "" if name is None else f" and {BETWEEN}={name}, the listener of the voters"


def _of_controllers(texts: Mapping[str, str]) -> str | None:
    """Return the controllers' listener of a file for Kafka, unless brokers already use that listener."""
    name = texts.get(CONTROLLERS, "").partition(",")[0].strip()
    return name if name and name.upper() != texts.get(BETWEEN, "").upper() else None


def _between(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    between, names = config[BETWEEN], _names(config)
    if between is not None and names is not None and str(between).upper() not in names:
        yield BETWEEN, "not in listeners"


def _together(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    """Check settings of a cluster that need no valid listeners."""
    if not config.in_cluster:
        return
    if config[BETWEEN] is not None and SECURITY_BETWEEN in texts:
        yield SECURITY_BETWEEN, f"conflicts with {BETWEEN}={config[BETWEEN]}; remove one of the two"
    if not config.in_quorum:
        if not config["zookeeper.connect"]:
            yield METADATA_STORE, "zookeeper.connect is missing; add zookeeper.connect=host:port"
        return
    if config["zookeeper.connect"]:
        yield "zookeeper.connect", f"conflicts with {METADATA_STORE}={QUORUM}; remove one of the two"
    if not config.topic_ids:
        yield PROTOCOL_VERSION, f"must be 2.8 or later with {METADATA_STORE}={QUORUM}"


def _store(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    """Check the inter-broker listener in a cluster."""
    names = _names(config) or set()
    if not config.in_cluster or (config[BETWEEN] is not None and config.between_brokers not in names):
        return
    if config.in_quorum:
        yield from _quorum(config, texts)
    if config.between_brokers is None or len(names) < 2:
        name = _of_controllers(texts) if config.in_quorum else None
        yield (
            METADATA_STORE,
            (
                f"brokers require a listener of their own that serves no clients; set {BETWEEN}={name}"
                if name is not None
                else "brokers require a listener of their own that serves no clients; add one to listeners and "
                "listener.security.protocol.map, such as REPLICATION://host:port and REPLICATION:PLAINTEXT, and set "
                "inter.broker.listener.name=REPLICATION"
            ),
        )
    elif config.between_brokers not in names:
        yield SECURITY_BETWEEN, "no listener has this name; set inter.broker.listener.name to the listener of brokers"
    else:
        yield from _between_brokers(config, texts)


def _quorum(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    own = next((listener for listener in config.listeners if listener.name == config.between_brokers), None)
    if own is not None and own.port == 0 and not config.voters:
        yield "listeners", f"{own} needs a fixed port: voters of the metadata log keep each other's addresses"
    voter = next((voter for voter in config.voters if voter.node_id == config.broker_id), None)
    if own is None or voter is None or voter.port in (0, own.port):
        return
    # The given text of `listeners` still contains the listener of the controllers.
    for item in texts.get("listeners", "").split(","):
        name, _, address = item.strip().partition("://")
        if name.upper() != own.name and address.rpartition(":")[2].strip() == str(voter.port):
            yield (
                VOTERS,
                (
                    f"port {voter.port} of node {voter.node_id} is that of the listener {name}, and brokers use "
                    f"{own.name} ({BETWEEN}); let the voters have the addresses of that listener, or set "
                    f"{BETWEEN}={name}"
                ),
            )


def _between_brokers(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    between = next(listener for listener in config.listeners if listener.name == config.between_brokers)
    named_by = BETWEEN if config[BETWEEN] is not None else SECURITY_BETWEEN
    if between.protocol.endswith("SSL"):
        for name in (CHECKED_NAME, f"{PREFIX}{between.name.lower()}.{CHECKED_NAME}"):
            if texts.get(name, "https").lower() != "https":
                yield name, "brokers verify the names in each other's certificates; remove the line"
    try:
        login = broker_login(config)
    except InvalidValue as problem:
        yield named_by, str(problem)
        return
    if not (login.mechanism or login.certified or is_loopback(between.host)):
        yield from _unguarded(config, between, named_by)


def _unguarded(config: BrokerConfig, between: Listener, named_by: str) -> Problems:
    has_authorizer = bool(config.get_str("authorizer.class.name"))
    if has_authorizer or any(listener.protocol.startswith("SASL_") for listener in config.listeners):
        guarded = "an authorizer is configured" if has_authorizer else "clients must log in"
        yield (
            named_by,
            (
                f"every client that connects to {between} can act as a broker, although {guarded}; map it to SSL "
                f"and set ssl.client.auth=required, map it to SASL_SSL or SASL_PLAINTEXT and set {MECHANISM}, or "
                "give it a loopback address"
            ),
        )


def _identity(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    static = config.layer(ConfigSource.STATIC_BROKER_CONFIG)
    if "node.id" in static and config["broker.id"] not in (None, -1, config["node.id"]):
        yield "broker.id", f"conflicts with node.id={config['node.id']}; remove one of the two"


def _directories(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    # If a variable is unset, the list is empty. Refuse it: with the default directory, the broker would start without
    # its data.
    if "log.dirs" in texts and not config.get_list("log.dirs"):
        yield "log.dirs", "no directory given; add one or remove the line"
    elif not all(config.get_list("log.dirs") or config.get_list("log.dir")):
        yield "log.dirs", "an empty directory name between two commas"
    elif len(set(config.log_dirs)) != len(config.log_dirs):
        yield "log.dirs", "a directory is listed twice"


def _cordoned(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    problem = cordon_problem(config)
    if problem is not None:
        yield "cordoned.log.dirs", problem


def _metadata_log(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    if config.metadata_log_dir not in config.log_dirs:
        yield "metadata.log.dir", f"{config.metadata_log_dir} is not in log.dirs"


def cordon_problem(config: BrokerConfig) -> str | None:
    """Return the problem of `cordoned.log.dirs`, or None."""
    if "*" in (named := config.get_list("cordoned.log.dirs")):
        return None if len(named) == 1 else "* means all directories; remove the others"
    strange = sorted(set(config.cordoned_log_dirs) - set(config.log_dirs))
    return f"{strange[0]} is not in log.dirs" if strange else None


def _groups(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    if config.get_int("group.min.session.timeout.ms") > config.get_int("group.max.session.timeout.ms"):
        yield "group.min.session.timeout.ms", "above group.max.session.timeout.ms"
    for name, low, high in (broker for broker in OF_BROKER.values() if broker.low or broker.high):
        if low is not None and config.get_int(name) < config.get_int(low):
            yield name, f"below {low}"
        if high is not None and config.get_int(name) > config.get_int(high):
            yield name, f"above {high}"
    for beat, session in BEAT_BELOW_SESSION:
        name, below = OF_BROKER[beat].default, OF_BROKER[session].default
        if config.get_int(name) >= config.get_int(below):
            yield name, f"must be below {below}"


def _connection_overrides(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    try:
        connection_overrides.resolve(config.get_str(connection_overrides.NAME))
    except InvalidValue as problem:
        yield connection_overrides.NAME, str(problem)


def _retention(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    """Refuse a default that deletes every record at once. A single topic may have it (retention.ms=0), as in Kafka."""
    del texts
    member, value = config.first_of_family("log.retention.ms") or ("", None)
    if value == 0:
        yield member, "must be -1 (no limit) or at least 1"


def _connections_of_an_address(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    if config[PER_ADDRESS] == 0 and not config[connection_overrides.NAME]:
        yield PER_ADDRESS, f"0 refuses every connection; set {connection_overrides.NAME}"


def _memory_of_cleaner(config: BrokerConfig, texts: Mapping[str, str]) -> Problems:
    del texts
    threads = max(1, config.get_int("log.cleaner.threads"))
    if config.get_int(CLEANER_MEMORY) // threads <= 1 << 20:
        yield CLEANER_MEMORY, f"must be above 1 MiB for each of log.cleaner.threads={threads}"


def changed_problems(now: BrokerConfig, then: BrokerConfig) -> Problems:
    """Yield the problems of a change of settings on a running broker (Kafka: KafkaConfig.validateValues and the
    reconfigurable components). A setting whose value does not change has no problem, because another release may have
    stored it.
    """
    changed = {name for name in then if then[name] != now[name]}
    for check in (_cordoned, _groups, _retention, _connections_of_an_address, _memory_of_cleaner):
        found = list(check(then, {}))
        if found and list(check(now, {})) != found:
            yield from found
    for name in _AT_LEAST_ONE & changed:
        if then.get_int(name) < 1:
            yield name, "must be at least 1"
    for name in sorted(_THREADS & changed):
        least, most = max(1, now.get_int(name) // 2), max(1, now.get_int(name)) * 2
        if not least <= then.get_int(name) <= most:
            yield name, f"must be between {least} and {most}: at least half and at most double of the current value"


_AT_LEAST_ONE = {"max.connections", "max.connection.creation.rate"}
_THREADS = {
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
}

_WITHOUT_LISTENERS: tuple[Check, ...] = (
    _identity,
    _advertised,
    _between,
    _alone,
    _together,
    _directories,
    _cordoned,
    _metadata_log,
    _groups,
    _retention,
    _connections_of_an_address,
    _memory_of_cleaner,
    _connection_overrides,
)
_CHECKS: tuple[Check, ...] = (_identity, _security_of_listeners, _store, *_WITHOUT_LISTENERS[1:])
