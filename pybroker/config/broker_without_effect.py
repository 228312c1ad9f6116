"""Kafka's dynamic broker settings that have no effect in pybroker, because they tune mechanisms that pybroker does not
have.

The broker accepts them from tools and operators. It checks them as Kafka does, stores and shows them, and their
documentation says why they change nothing. Settings that request protection or another mode of operation are in
`foreign_settings` instead.
"""

from __future__ import annotations

from pybroker.config.setting_values import ConfigKey, ConfigType, Scope, Validator, Value, at_least, unlike

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
LONG_MAX = 9223372036854775807

_THREADS = "requests run on the data threads (num.network.threads) and one control thread"
_CLEANER = "log.cleaner.dedupe.buffer.size sets all of the cleaner's memory"
_WHERE_ANSWERED = "assignments are computed where heartbeats are answered"
_TIERED = "tiered storage is not supported"
_TRANSACTIONS = "the first records of a transaction in a partition are always verified"
_KERBEROS = "the SASL mechanism GSSAPI is not supported"
_OAUTH = "brokers renew their tokens after 80% of their lifetime"


def _key(
    name: str,
    kind: ConfigType,
    default: Value,
    why: str,
    validator: Validator | None = None,
    *,
    per_broker: bool = False,
    internal: bool = False,
) -> ConfigKey:
    scope = Scope.PER_BROKER if per_broker else Scope.CLUSTER_WIDE
    return ConfigKey(name, kind, default, f"Accepted, but has no effect: {why}.", validator, scope, internal)


WITHOUT_EFFECT = (
    _key("num.io.threads", INT, 8, _THREADS, at_least(1)),
    _key("background.threads", INT, 10, _THREADS, at_least(1)),
    _key("log.cleaner.io.buffer.size", INT, 524288, _CLEANER, at_least(0)),
    _key("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, _CLEANER),
    _key("group.coordinator.cached.buffer.max.bytes", INT, 1048588, "buffers are not cached", at_least(524288)),
    _key("group.consumer.assignor.offload.enable", BOOLEAN, True, _WHERE_ANSWERED, internal=True),
    _key("group.share.assignor.offload.enable", BOOLEAN, True, _WHERE_ANSWERED, internal=True),
    _key("share.coordinator.cached.buffer.max.bytes", INT, 1048588, "buffers are not cached", at_least(524288)),
    _key("group.streams.assignor.offload.enable", BOOLEAN, True, _WHERE_ANSWERED, internal=True),
    _key("transaction.partition.verification.enable", BOOLEAN, True, _TRANSACTIONS),
    _key("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, _TIERED),
    _key("log.local.retention.bytes", LONG, -2, _TIERED, at_least(-2)),
    _key("log.local.retention.ms", LONG, -2, _TIERED, at_least(-2)),
    _key("log.remote.copy.lag.bytes", LONG, -1, _TIERED, at_least(-1)),
    _key("log.remote.copy.lag.ms", LONG, 0, _TIERED, at_least(-1)),
    _key("remote.fetch.max.wait.ms", INT, 500, _TIERED, at_least(1)),
    _key("remote.list.offsets.request.timeout.ms", LONG, 30000, _TIERED, at_least(1)),
    _key("remote.log.index.file.cache.total.size.bytes", LONG, 1073741824, _TIERED, at_least(1)),
    _key("remote.log.manager.copier.thread.pool.size", INT, 10, _TIERED, at_least(1)),
    _key("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, _TIERED, at_least(1)),
    _key("remote.log.manager.expiration.thread.pool.size", INT, 10, _TIERED, at_least(1)),
    _key("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, _TIERED, at_least(1)),
    _key("remote.log.manager.follower.thread.pool.size", INT, 2, _TIERED, at_least(1)),
    _key("remote.log.reader.threads", INT, 10, _TIERED, at_least(1)),
    _key("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", _KERBEROS, per_broker=True),
    _key("sasl.kerberos.min.time.before.relogin", LONG, 60000, _KERBEROS, per_broker=True),
    _key("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), _KERBEROS, unlike, per_broker=True),
    _key("sasl.kerberos.service.name", STRING, None, _KERBEROS, per_broker=True),
    _key("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, _KERBEROS, per_broker=True),
    _key("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, _KERBEROS, per_broker=True),
    _key("sasl.login.refresh.buffer.seconds", SHORT, 300, _OAUTH, per_broker=True),
    _key("sasl.login.refresh.min.period.seconds", SHORT, 60, _OAUTH, per_broker=True),
    _key("sasl.login.refresh.window.factor", DOUBLE, 0.8, _OAUTH, per_broker=True),
    _key("sasl.login.refresh.window.jitter", DOUBLE, 0.05, _OAUTH, per_broker=True),
)
