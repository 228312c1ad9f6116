"""Client settings under Kafka's names: one table for each client class, strict parsing. The error for an unknown name
suggests the nearest known one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from pybroker.client.client_errors import ClientConfigError
from pybroker.config.definition import ConfigDef, nearest_name
from pybroker.config.setting_values import (
    ConfigKey,
    ConfigType,
    InvalidValue,
    Value,
    at_least,
    not_empty,
    one_of,
    render_value,
)
from pybroker.config.stores import CRL, check_type
from pybroker.protocol.scram import BY_NAME

_BOOLEAN, _STRING, _INT, _LONG, _LIST, _CLASS, _PASSWORD = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)

COMMON: tuple[ConfigKey, ...] = (
    ConfigKey("bootstrap.servers", _LIST, None, "Initial brokers, as host:port.", not_empty),
    ConfigKey(
        "bootstrap.wait.ms",
        _LONG,
        0,
        (
            "Time that a client retries before it has reached a broker for the first time, counted from its first "
            "call. 0: fail at once, because the address may be wrong. Not one of Kafka's settings; its clients retry "
            "without limit."
        ),
        at_least(0),
    ),
    ConfigKey("client.id", _STRING, "pybroker", "Client name for the broker's log, metrics and quotas."),
    ConfigKey(
        "client.rack", _STRING, "", "Rack of this client; consumers can then read from a replica in the same rack."
    ),
    ConfigKey(
        "security.protocol",
        _STRING,
        "PLAINTEXT",
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    ConfigKey(
        "sasl.mechanism",
        _STRING,
        None,
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
        one_of("PLAIN", *BY_NAME, "OAUTHBEARER"),
    ),
    ConfigKey("sasl.username", _STRING, None, "User for SASL."),
    ConfigKey("sasl.password", _PASSWORD, None, "Password for SASL."),
    ConfigKey(
        "sasl.jaas.config",
        _PASSWORD,
        None,
        'User and password in the format of Java clients; with tokenauth="true" the id and HMAC of a delegation token.',
    ),
    ConfigKey(
        "oauth_cb",
        _CLASS,
        None,
        (
            "OAUTHBEARER: a function, possibly asynchronous, that receives sasl.oauthbearer.config and returns a "
            "token or (token, expiry in seconds since 1970), as in librdkafka."
        ),
    ),
    ConfigKey("sasl.oauthbearer.config", _STRING, None, "Argument for oauth_cb."),
    ConfigKey(
        "sasl.oauthbearer.token.endpoint.url",
        _STRING,
        None,
        (
            "OAUTHBEARER: source of tokens. https://…: an identity provider, queried with the client id and secret; "
            "file:///…: a file, read at each login."
        ),
    ),
    ConfigKey("sasl.oauthbearer.client.credentials.client.id", _STRING, None, "Client id at the identity provider."),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.secret", _PASSWORD, None, "Client secret at the identity provider."
    ),
    ConfigKey("sasl.oauthbearer.scope", _STRING, None, "Scope to request from the identity provider."),
    ConfigKey("sasl.oauthbearer.header.urlencode", _BOOLEAN, False, "URL-encode id and secret (RFC 6749, 2.3.1)."),
    ConfigKey("sasl.login.read.timeout.ms", _INT, 10_000, "Timeout of a token request, in ms.", at_least(1)),
    ConfigKey(
        "sasl.login.retry.backoff.ms", _LONG, 100, "First pause before a failed token request is retried.", at_least(1)
    ),
    ConfigKey(
        "sasl.login.retry.backoff.max.ms", _LONG, 10_000, "Total time of retries of token requests.", at_least(0)
    ),
    ConfigKey("https.ca.location", _STRING, None, "CA certificates for the https:// URL of tokens, PEM."),
    ConfigKey("ssl.ca.location", _STRING, None, "File or directory of trusted certificates, PEM."),
    ConfigKey("ssl.certificate.location", _STRING, None, "This client's certificate, PEM."),
    ConfigKey("ssl.key.location", _STRING, None, "This client's key, PEM."),
    ConfigKey("ssl.key.password", _PASSWORD, None, "Password of the key."),
    ConfigKey("ssl.keystore.location", _STRING, None, "This client's key and certificate in one file."),
    ConfigKey("ssl.keystore.type", _STRING, None, "PEM, JKS or PKCS12; by default detected from the file.", check_type),
    ConfigKey("ssl.keystore.password", _PASSWORD, None, "Password of the keystore, unless it is PEM."),
    ConfigKey("ssl.keystore.key", _PASSWORD, None, "This client's key as PEM text."),
    ConfigKey("ssl.keystore.certificate.chain", _PASSWORD, None, "This client's certificate as PEM text."),
    ConfigKey("ssl.truststore.location", _STRING, None, "File of trusted certificates; the client trusts no others."),
    ConfigKey(
        "ssl.truststore.type", _STRING, None, "PEM, JKS or PKCS12; by default detected from the file.", check_type
    ),
    ConfigKey("ssl.truststore.password", _PASSWORD, None, "Password of the truststore, unless it is PEM."),
    ConfigKey("ssl.truststore.certificates", _PASSWORD, None, "Trusted certificates as PEM text."),
    ConfigKey(
        CRL,
        _STRING,
        None,
        "Revocation lists (CRLs, PEM), one for each authority in a broker's chain. The name is librdkafka's.",
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        _STRING,
        "https",
        "https: check the broker's host name against its certificate; empty: no check.",
        one_of("https", ""),
    ),
    ConfigKey("ssl.context", _CLASS, None, "An ssl.SSLContext; overrides the other ssl settings."),
    ConfigKey("request.timeout.ms", _INT, 30_000, "Timeout of one request.", at_least(1)),
    ConfigKey("default.api.timeout.ms", _INT, 60_000, "Longest time for a call, including retries.", at_least(1)),
    ConfigKey("socket.connection.setup.timeout.ms", _LONG, 10_000, "Timeout of a connection attempt.", at_least(1)),
    ConfigKey("reconnect.backoff.ms", _LONG, 50, "First pause after a failed connection attempt.", at_least(0)),
    ConfigKey(
        "reconnect.backoff.max.ms",
        _LONG,
        1_000,
        "Longest pause after failed connection attempts; pauses double.",
        at_least(0),
    ),
    ConfigKey("retry.backoff.ms", _LONG, 100, "First pause before a request is retried.", at_least(0)),
    ConfigKey("retry.backoff.max.ms", _LONG, 1_000, "Longest pause between retries; pauses double.", at_least(0)),
    ConfigKey("connections.max.idle.ms", _LONG, 540_000, "Close connections that were unused for this time."),
    ConfigKey("receive.message.max.bytes", _INT, 256 << 20, "Maximum size of a response.", at_least(1_000)),
    ConfigKey("metadata.max.age.ms", _LONG, 300_000, "Longest time between two metadata requests.", at_least(1)),
    ConfigKey(
        "metadata.recovery.strategy",
        _STRING,
        "rebootstrap",
        "Action if no known broker responds: rebootstrap or none.",
        one_of("rebootstrap", "none"),
    ),
    ConfigKey(
        "metadata.recovery.rebootstrap.trigger.ms",
        _LONG,
        300_000,
        "Accepted, but has no effect: this client rebootstraps at once.",
        at_least(0),
    ),
    ConfigKey(
        "metadata.cluster.check.enable",
        _BOOLEAN,
        True,
        "Send the expected cluster and node id to each broker, to detect a misrouted connection (KIP-1242).",
    ),
    ConfigKey("metric.reporters", _LIST, (), "Objects or classes: MetricReporter."),
)

ADMIN = ConfigDef(COMMON)

_INTERCEPTORS = "Objects or classes, in order: ProducerInterceptor, ConsumerInterceptor."

_COMPRESSION = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER = ConfigDef(
    (
        *COMMON,
        ConfigKey("key.serializer", _CLASS, None, "Serializer or function; by default bytes and text."),
        ConfigKey("value.serializer", _CLASS, None, "Serializer or function; by default bytes and text."),
        ConfigKey("interceptor.classes", _LIST, (), _INTERCEPTORS),
        ConfigKey(
            "acks",
            _STRING,
            -1,
            "Replicas that must acknowledge a record: all (or -1) in-sync replicas, 1 (the leader), 0 (none).",
            one_of("all", "-1", "0", "1"),
        ),
        ConfigKey(
            "enable.idempotence", _BOOLEAN, True, "Write each record exactly once and in order; requires acks=all."
        ),
        ConfigKey(
            "max.in.flight.requests.per.connection",
            _INT,
            5,
            "Maximum number of requests in flight per broker.",
            at_least(1),
        ),
        ConfigKey("retries", _INT, 2**31 - 1, "Maximum number of retries of a batch.", at_least(0)),
        ConfigKey("delivery.timeout.ms", _INT, 120_000, "Time after which an unwritten record fails.", at_least(1)),
        ConfigKey(
            "linger.ms",
            _LONG,
            5,
            "Time that a batch waits for more records if it is not full and no caller awaits it.",
            at_least(0),
        ),
        ConfigKey(
            "batch.size",
            _INT,
            262_144,
            (
                "Maximum bytes of a batch before compression. Kafka's default is 16384, which needs more requests. "
                "Memory is allocated as records arrive."
            ),
            at_least(0),
        ),
        ConfigKey(
            "buffer.memory",
            _LONG,
            32 << 20,
            "Maximum bytes of unsent records; when it is reached, callers wait.",
            at_least(1),
        ),
        ConfigKey("max.block.ms", _LONG, 60_000, "Longest wait for buffer memory or for a topic.", at_least(0)),
        ConfigKey("max.request.size", _INT, 1 << 20, "Maximum size of a record and of a request.", at_least(1)),
        ConfigKey("compression.type", _STRING, "none", ", ".join(_COMPRESSION), one_of(*_COMPRESSION)),
        ConfigKey("compression.gzip.level", _INT, -1, "1 to 9; -1 = the codec's default."),
        ConfigKey("compression.lz4.level", _INT, -1, "Accepted, but has no effect: this client's lz4 has one level."),
        ConfigKey("compression.zstd.level", _INT, 3, "1 to 22."),
        ConfigKey(
            "on.topic.recreated",
            _STRING,
            "fail",
            (
                "Behavior for records whose topic is deleted and created again before they are written: fail, or "
                "continue with the new topic. Not one of Kafka's settings; its clients continue."
            ),
            one_of("fail", "continue"),
        ),
    )
)

TRANSACTIONAL = ConfigDef(
    (
        *PRODUCER.values(),
        ConfigKey(
            "transactional.id",
            _STRING,
            None,
            "Identity of a TransactionalProducer across restarts; a new producer fences the previous one.",
            not_empty,
        ),
        ConfigKey(
            "transaction.timeout.ms",
            _INT,
            60_000,
            "Time after which the coordinator aborts an open transaction.",
            at_least(1),
        ),
    )
)

_RESET = ("earliest", "latest", "none")

CONSUMER = ConfigDef(
    (
        *COMMON,
        ConfigKey("key.deserializer", _CLASS, None, "Deserializer or function of bytes; by default bytes."),
        ConfigKey("value.deserializer", _CLASS, None, "Deserializer or function of bytes; by default bytes."),
        ConfigKey("interceptor.classes", _LIST, (), _INTERCEPTORS),
        ConfigKey("group.id", _STRING, None, "Consumer group.", not_empty),
        ConfigKey(
            "group.instance.id", _STRING, None, "Makes the member static: a restart causes no rebalance.", not_empty
        ),
        ConfigKey(
            "group.protocol",
            _STRING,
            "classic",
            "Group protocol: classic (members assign partitions) or consumer (KIP-848: the coordinator assigns).",
            one_of("classic", "consumer"),
        ),
        ConfigKey(
            "group.remote.assignor",
            _STRING,
            None,
            (
                "With group.protocol=consumer: assignor of the coordinator, uniform or range. Unset: the coordinator "
                "chooses."
            ),
            not_empty,
        ),
        ConfigKey(
            "partition.assignment.strategy",
            _LIST,
            ("range", "cooperative-sticky"),
            (
                "range, roundrobin, cooperative-sticky, or Java's class names; the group uses the first assignor "
                "that all members support."
            ),
            not_empty,
        ),
        ConfigKey(
            "session.timeout.ms",
            _INT,
            45_000,
            "Time without a heartbeat after which the group removes a member.",
            at_least(1),
        ),
        ConfigKey("heartbeat.interval.ms", _INT, 3_000, "Time between two heartbeats.", at_least(1)),
        ConfigKey(
            "max.poll.interval.ms",
            _INT,
            300_000,
            "Time without a poll after which a member leaves the group.",
            at_least(1),
        ),
        ConfigKey("enable.auto.commit", _BOOLEAN, True, "Commit delivered records automatically."),
        ConfigKey("auto.commit.interval.ms", _INT, 5_000, "Time between automatic commits.", at_least(0)),
        ConfigKey(
            "auto.offset.reset",
            _STRING,
            "latest",
            "Start position without a committed offset: earliest, latest, or none (raises NoOffsetError).",
            one_of(*_RESET),
        ),
        ConfigKey(
            "isolation.level",
            _STRING,
            "read_uncommitted",
            "read_committed: skip records of aborted transactions.",
            one_of("read_uncommitted", "read_committed"),
        ),
        ConfigKey(
            "fetch.min.bytes",
            _INT,
            1,
            "Minimum bytes of a fetch response, unless fetch.max.wait.ms has passed.",
            at_least(0),
        ),
        ConfigKey("fetch.max.wait.ms", _INT, 500, "Longest time that the broker delays a fetch response.", at_least(0)),
        ConfigKey("fetch.max.bytes", _INT, 50 << 20, "Maximum size of a fetch response.", at_least(0)),
        ConfigKey(
            "max.partition.fetch.bytes", _INT, 1 << 20, "Maximum bytes per partition in a fetch response.", at_least(0)
        ),
        ConfigKey("max.poll.records", _INT, 500, "Maximum number of records that a poll returns.", at_least(1)),
        ConfigKey("check.crcs", _BOOLEAN, True, "Verify the checksum of every batch."),
        ConfigKey("allow.auto.create.topics", _BOOLEAN, True, "Allow metadata requests to create missing topics."),
        ConfigKey(
            "on.topic.missing",
            _STRING,
            "wait",
            (
                "Behavior for a missing topic or partition: wait for it and log this, or fail: the poll raises "
                "UnknownTopicError. Not one of Kafka's settings; its clients wait."
            ),
            one_of("wait", "fail"),
        ),
        ConfigKey("exclude.internal.topics", _BOOLEAN, True, "Subscription patterns do not match internal topics."),
    )
)

SHARE_CONSUMER = ConfigDef(
    (
        *COMMON,
        *(
            CONSUMER[name]
            for name in (
                "key.deserializer",
                "value.deserializer",
                "group.id",
                "max.poll.interval.ms",
                "fetch.min.bytes",
                "fetch.max.wait.ms",
                "fetch.max.bytes",
                "max.poll.records",
                "check.crcs",
            )
        ),
        ConfigKey(
            "share.acknowledgement.mode",
            _STRING,
            "implicit",
            (
                "implicit: the next poll or commit accepts delivered records; explicit: the program acknowledges "
                "each record."
            ),
            one_of("implicit", "explicit"),
        ),
        ConfigKey(
            "share.acquire.mode",
            _STRING,
            "batch_optimized",
            "batch_optimized: whole batches; record_limit: at most max.poll.records per broker (KIP-1206).",
            one_of("batch_optimized", "record_limit"),
        ),
    )
)


NOT_SERVED = {
    "transactional.id": "use a TransactionalProducer; a Producer is idempotent by default but has no transactions",
}
"""Settings of Kafka's clients that these clients refuse, because they would have no effect."""


_OF_PROTOCOL = {
    "partition.assignment.strategy": ("classic", "the coordinator assigns partitions; use group.remote.assignor"),
    "session.timeout.ms": ("classic", "use the group's setting consumer.session.timeout.ms"),
    "heartbeat.interval.ms": ("classic", "use the group's setting consumer.heartbeat.interval.ms"),
    "group.remote.assignor": ("consumer", "members assign partitions; use partition.assignment.strategy"),
}


def check_protocol(config: ClientConfig) -> None:
    """As in Kafka's consumer, raise ClientConfigError if a setting is given that does not apply to the chosen
    `group.protocol`.
    """
    protocol = config["group.protocol"]
    for name, (needs, instead) in _OF_PROTOCOL.items():
        if name in config and protocol != needs:
            raise ClientConfigError(f"{name} cannot be set with group.protocol={protocol}: {instead}")


class ClientConfig:
    """The settings of one client, parsed and checked.

    Accepts text and typed values (`"100"`, `100`, `"100ms"`): a `key=value` file and a dict mean the same. Raises
    ClientConfigError if a name is unknown or a value invalid.
    """

    def __init__(self, table: ConfigDef, settings: Mapping[str, Any]) -> None:
        self._table = table
        self._given = dict(settings)
        self._values: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        for name, value in settings.items():
            if name in NOT_SERVED and name not in table:
                raise ClientConfigError(f"{name}: {NOT_SERVED[name]}")
            if name not in table:
                near = nearest_name(name, table)
                raise ClientConfigError(f"unknown setting {name}{f'; did you mean {near}?' if near else ''}")
            self._values[name] = _typed(table[name], value)
        if self._values.get("acks") is not None:
            self._values["acks"] = -1 if self._values["acks"] == "all" else int(self._values["acks"])

    def __contains__(self, name: str) -> bool:
        """Return whether the setting was given."""
        return self._given.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        """Return the given value, else the default."""
        value = self._values.get(name)
        return self._table[name].default if value is None else value

    def once(self, what: str, make: Callable[[], Any]) -> Any:
        """Return an object that all components with these settings share. The first call creates it with `make`."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def seconds(self, name: str) -> float:
        """Return a setting in milliseconds as seconds."""
        return float(self[name]) / 1000

    def plugin(self, name: str) -> Any:
        """Return the object that a setting names. The value may be the object itself, or a class or
        `package.module:Class`, of which this creates an instance.
        """
        return make_plugin(name, self[name])

    def plugins(self, name: str) -> list[Any]:
        """Return the objects that a list setting names."""
        return [make_plugin(name, each) for each in self[name] or ()]

    def originals(self) -> dict[str, Any]:
        """Return the settings as they were given, for `configure` of plug-ins."""
        return dict(self._given)


def make_plugin(name: str, value: Any) -> Any:
    """Return the object for the value of setting `name`. Raises ClientConfigError if the import fails."""
    if isinstance(value, str):
        module, _, attribute = value.replace(":", ".").rpartition(".")
        try:
            value = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise ClientConfigError(f"{name}={value}: import failed: {error}") from error
    # Instantiate a plug-in class. Any other class, such as `int`, is used as a function of bytes.
    return value() if isinstance(value, type) and hasattr(value, "configure") else value


def _typed(key: ConfigKey, value: Any) -> Any:
    if value is None or (key.type is _CLASS and not isinstance(value, str)):
        return value
    if key.type is _LIST and not isinstance(value, str):
        if not isinstance(value, list | tuple):
            value = (value,)
        if any(not isinstance(each, str) for each in value):
            return tuple(value)  # The value contains plug-in objects instead of text.
        value = ",".join(value)
    shown = "[hidden]" if key.sensitive else value
    if not isinstance(value, str | bool | int | float):
        raise ClientConfigError(f"{key.name}={shown}: expected {key.type.name.lower()}, got {type(value).__name__}")
    try:
        parsed: Value = key.parse(render_value(value) or "")
    except InvalidValue as error:
        raise ClientConfigError(f"{key.name}={shown}: {error}") from None
    return parsed


def addresses(config: ClientConfig) -> list[tuple[str, int]]:
    """Return `bootstrap.servers` as (host, port) pairs. Raises ClientConfigError if it is missing or malformed."""
    found = []
    for entry in config["bootstrap.servers"] or ():
        host, colon, port = entry.rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise ClientConfigError(f"bootstrap.servers={entry}: expected host:port")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not found:
        raise ClientConfigError("bootstrap.servers is not set; use host:port of at least one broker")
    return found
