"""Settings of Apache Kafka and other products that this broker does not have. For each, this module knows whether it is
harmless or prevents the start, and the remedy in the second case.

A setting is harmless if ignoring it affects neither safety nor the results that clients get. The broker refuses
settings that promise protection or another mode of operation (a policy class, a remote quorum), because ignoring them
without a message would be dangerous.
"""

from __future__ import annotations

import msgspec

from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.listener_settings import PREFIX
from pybroker.config.providers import NAME as PROVIDERS


class Refusal(msgspec.Struct, frozen=True):
    """A refused setting. If its value is one of `harmless` (compared without spaces, ignoring case), it is not refused.
    """

    remedy: str
    harmless: tuple[str, ...] = ("",)


_NO_CLASSES = "Java classes are not supported; remove the line"
_NO_TIERED = "tiered storage is not supported; remove the line"

REFUSED: dict[str, Refusal] = {
    "zookeeper.metadata.migration.enable": Refusal(
        "stop all brokers and move with `pybroker metadata migrate --from zookeeper --to quorum`; remove the line",
        ("", "false"),
    ),
    "process.roles": Refusal(
        "broker and controller run in one process; use broker,controller or remove the line",
        ("", "broker,controller", "controller,broker"),
    ),
    "control.plane.listener.name": Refusal(
        "the controller runs in the broker's process; remove the line and the listener"
    ),
    "principal.builder.class": Refusal(
        _NO_CLASSES, ("", "org.apache.kafka.common.security.authenticator.defaultkafkaprincipalbuilder")
    ),
    "create.topic.policy.class.name": Refusal(_NO_CLASSES),
    "alter.config.policy.class.name": Refusal(_NO_CLASSES),
    "client.quota.callback.class": Refusal(_NO_CLASSES),
    "security.providers": Refusal(_NO_CLASSES),
    "remote.log.storage.system.enable": Refusal(_NO_TIERED, ("", "false")),
    "log.message.timestamp.difference.max.ms": Refusal(
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
        ("", "9223372036854775807"),
    ),
    "max.decompressed.message.bytes": Refusal(
        "the limit of a decompressed batch is fixed: 256 MiB, or 64 times its size; remove the line", ("", "2147483639")
    ),
    "sasl.server.callback.handler.class": Refusal(_NO_CLASSES),
    "sasl.oauthbearer.jwt.validator.class": Refusal(
        _NO_CLASSES,
        (
            "",
            "org.apache.kafka.common.security.oauthbearer.defaultjwtvalidator",
            "org.apache.kafka.common.security.oauthbearer.brokerjwtvalidator",
        ),
    ),
    "ssl.protocol": Refusal("use ssl.enabled.protocols", ("", "tls", "tlsv1.2", "tlsv1.3")),
    "zookeeper.ssl.crl.enable": Refusal(
        "revocation of ZooKeeper's certificates is not checked; remove the line", ("", "false")
    ),
    "zookeeper.ssl.ocsp.enable": Refusal(
        "revocation of ZooKeeper's certificates is not checked; remove the line", ("", "false")
    ),
    "ssl.provider": Refusal(_NO_CLASSES),
    "ssl.engine.factory.class": Refusal(_NO_CLASSES),
    "unstable.api.versions.enable": Refusal(
        "only released protocol versions are supported; remove the line", ("", "false")
    ),
}

# All other settings of Apache Kafka 3.9 to 4.4. They are accepted without effect, and one warning lists them.
_NAMES = """
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
auto.include.jmx.reporter broker.id.generation.enable
controller.listener.names controller.performance.always.log.threshold.ms
controller.performance.sample.period.ms controller.quorum.append.linger.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.socket.timeout.ms
delete.records.purgatory.purge.interval.requests early.start.listeners eligible.leader.replicas.enable
fetch.purgatory.purge.interval.requests
group.coordinator.append.linger.ms group.coordinator.background.threads group.coordinator.new.enable
group.coordinator.threads group.share.assignors group.share.dlq.manager.class.name
group.share.enable group.share.initialize.retry.interval.ms
group.share.persister.class.name
group.streams.topology.description.plugin.class
initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters
log.dir.failure.timeout.ms log.message.downconversion.enable log.message.format.version
metrics.num.samples metrics.recording.level metrics.sample.window.ms num.replica.alter.log.dirs.threads
offsets.commit.required.acks offsets.topic.compression.codec password.encoder.cipher.algorithm
password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
password.encoder.old.secret password.encoder.secret producer.id.expiration.check.interval.ms
producer.purgatory.purge.interval.requests
remote.log.index.file.cache.ttl.ms remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
replica.socket.receive.buffer.bytes replication.quota.window.num
replication.quota.window.size.seconds request.timeout.ms reserved.broker.max.id sasl.client.callback.handler.class
sasl.jaas.config sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
sasl.mechanism.controller.protocol
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file


sasl.oauthbearer.jwt.retriever.class
server.max.startup.time.ms share.coordinator.append.linger.ms
share.coordinator.cold.partition.snapshot.interval.ms
share.coordinator.state.topic.compression.codec
share.coordinator.threads share.coordinator.write.timeout.ms
share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.allow.dn.changes ssl.allow.san.changes ssl.endpoint.identification.algorithm
ssl.keymanager.algorithm ssl.secure.random.implementation ssl.trustmanager.algorithm
transaction.two.phase.commit.enable
unclean.leader.election.interval.ms unstable.feature.versions.enable
zookeeper.clientCnxnSocket zookeeper.max.in.flight.requests zookeeper.metadata.migration.min.batch.size
zookeeper.ssl.cipher.suites zookeeper.ssl.enabled.protocols
zookeeper.ssl.protocol
"""
HARMLESS: frozenset[str] = frozenset(_NAMES.split())

OF_THE_PAST: dict[str, str | None] = {
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "brokerid": "broker.id",
    "controller.message.queue.size": None,
    "dual.commit.enabled": None,
    "enable.zookeeper": None,
    "host.name": "listeners",
    "hostname": "listeners",
    "kafka.csv.metrics.dir": None,
    "kafka.csv.metrics.reporter.enabled": None,
    "log.cleanup.interval.mins": "log.retention.check.interval.ms",
    "log.default.flush.interval.ms": "log.flush.interval.ms",
    "log.default.flush.scheduler.interval.ms": "log.flush.scheduler.interval.ms",
    "log.delete.delay.ms": "log.segment.delete.delay.ms",
    "log.file.size": "log.segment.bytes",
    "log.flush.interval": "log.flush.interval.messages",
    "log.retention.size": "log.retention.bytes",
    "max.message.size": "message.max.bytes",
    "max.socket.request.bytes": "socket.request.max.bytes",
    "monitoring.period.secs": None,
    "num.threads": "num.network.threads",
    "offsets.storage": None,
    "port": "listeners",
    "quota.consumer.default": "pybroker quotas",
    "quota.producer.default": "pybroker quotas",
    "replica.lag.max.messages": "replica.lag.time.max.ms",
    "socket.receive.buffer": "socket.receive.buffer.bytes",
    "socket.send.buffer": "socket.send.buffer.bytes",
    "topic.flush.intervals.ms": "flush.ms of a topic",
    "topic.partition.count.map": None,
    "zk.connect": "zookeeper.connect",
    "zk.connectiontimeout.ms": "zookeeper.connection.timeout.ms",
    "zk.sessiontimeout.ms": "zookeeper.session.timeout.ms",
    "zk.synctime.ms": None,
    "zookeeper.sync.time.ms": None,
}
"""Settings of earlier Kafka releases that Kafka 3.9 and 4.4 ignore, with their replacements."""

OF_OTHERS = (
    "aiven.",
    "bitnami.",
    "cc.",
    "com.",
    "confluent.",
    "cruise.control.",
    "dek.registry.",
    "event.logger.",
    "external.kafka.",
    "io.",
    "kafka.ganglia.",
    "kafka.http.",
    "kafka.logger.",
    "kafka.rest.",
    "kafka.timeline.",
    "kroxylicious.",
    "li.",
    "mapr.",
    "metric.reporter.",
    "metrics.reporter.",
    "msk.",
    "opa.",
    "org.",
    "producer.metrics.",
    "prometheus.metrics.",
    "ranger.",
    "redpanda.",
    "rlmm.config.",
    "rsm.config.",
    "schema.registry.",
    "strimzi.",
    "telemetry.",
    "xasecure.",
)
"""Prefixes of settings that other products and plugins read from the same file."""

NAMES_OF_OTHERS = frozenset(("jmx.hostname", "jmx.port", "logs.dir"))
"""Names of such settings. Bitnami's `logs.dir` is the directory of log4j, and not a misspelt `log.dir`."""

_OF_CLIENTS = {"security.protocol": "configure each listener instead: listeners, listener.security.protocol.map"}
_PROTECTS = """
acl acls auth authentication authorization authorizer jaas kerberos principal sasl security ssl super tls
"""
_OF_PROTECTION = frozenset(_PROTECTS.split())
_OFF = ("", "false", "none")

LIMITS_OF_LISTENERS = frozenset(("max.connections",))
"""Settings that apply to all listeners together. The broker refuses such a setting for a single listener, because the
limit would then not apply to all listeners together.
"""


def refusal(name: str, text: str) -> str | None:
    """Return the remedy for a Kafka setting that the broker refuses; None if the setting is harmless or unknown. A
    setting of one listener counts as the setting after the prefix.
    """
    value = "".join(text.split()).lower()
    for part in _meanings(name):
        if part in LIMITS_OF_LISTENERS and part != name:
            return f"{part} applies to all listeners together; remove the line"
        refused = REFUSED.get(part)
        if refused is not None and value not in refused.harmless:
            return refused.remedy
    return None


def is_foreign(name: str) -> bool:
    """Return whether Apache Kafka knows this setting but this broker does not. A setting of one listener counts as the
    setting after the prefix.
    """
    kafkas = any(part in HARMLESS or part in REFUSED for part in _meanings(name))
    if name.startswith(PREFIX):
        return kafkas or any(part in BROKER_SETTINGS for part in _meanings(name))
    return kafkas


def is_of_providers(name: str) -> bool:
    """Return whether `providers` reads this setting."""
    return name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


def is_of_others(name: str) -> bool:
    """Return whether another product or a plugin reads this setting."""
    return name.startswith(OF_OTHERS) or name in NAMES_OF_OTHERS


def protection(name: str, text: str) -> str | None:
    """Return the reason why an unknown setting cannot be ignored: its name and value request protection that this
    broker does not have. None if it can be ignored."""
    if _OF_PROTECTION.isdisjoint(name.lower().split(".")) or text.strip().lower() in _OFF:
        return None
    remedy = _OF_CLIENTS.get(name, "see docs/security.md for supported settings, or remove the line")
    return f"looks like a security setting, but this broker does not support it; {remedy}"


def is_secret(name: str) -> bool:
    """Return whether error messages must hide the value of this setting."""
    return any(part.endswith("jaas.config") for part in _meanings(name))


def _meanings(name: str) -> tuple[str, ...]:
    """Return the settings to which `name` may refer: `name` itself or, if it is a setting of one listener, the part
    after listener.name.<listener>. and, for SASL, the part after listener.name.<listener>.<mechanism>."""
    if not name.startswith(PREFIX):
        return (name,)
    rest = name.removeprefix(PREFIX).partition(".")[2]
    return tuple(part for part in (rest, rest.partition(".")[2]) if part)
