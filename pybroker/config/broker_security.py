"""Broker settings: authentication (SASL) and authorization (ACLs)."""

from __future__ import annotations

from pybroker.config.broker_oauth import OAUTHBEARER
from pybroker.config.setting_values import ConfigKey, ConfigType, InvalidValue, Scope, Value, at_least
from pybroker.protocol.scram import BY_NAME

BOOLEAN, STRING, INT, LONG, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
)
PASSWORD = ConfigType.PASSWORD

MECHANISMS = ("PLAIN", *BY_NAME)
"""SASL mechanisms with passwords. They are enabled by default."""

SERVED = (*MECHANISMS, OAUTHBEARER)
"""SASL mechanisms that the broker supports."""

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's names of its authorizers. Both names enable pybroker's authorizer."""


def check_mechanisms(value: Value) -> None:
    """Raise InvalidValue if a mechanism is not supported. Otherwise its clients could not log in, and no error would
    explain why."""
    for mechanism in value if isinstance(value, tuple) else ():
        if mechanism not in SERVED:
            raise InvalidValue(f"mechanism {mechanism!r} is not supported; this broker supports {', '.join(SERVED)}")


def super_users(text: str) -> tuple[str, ...]:
    """Return the principals of a `super.users` value. Raises InvalidValue if it is malformed."""
    users = tuple(part.strip() for part in text.split(";") if part.strip())
    for user in users:
        kind, colon, name = user.partition(":")
        if not colon or not kind or not name:
            raise InvalidValue(f"expected Type:name;Type:name…, for example User:admin, found {user!r}")
    return users


def _authorizer(value: Value) -> None:
    if value not in ("", *AUTHORIZERS):
        raise InvalidValue(f"custom authorizers are not supported; use {' or '.join(AUTHORIZERS)}")


def _super_users(value: Value) -> None:
    super_users(str(value or ""))


DELEGATION_TOKENS = (
    ConfigKey(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "Secret key of delegation tokens, the same on all brokers. Unset: no delegation tokens.",
    ),
    ConfigKey("delegation.token.master.key", PASSWORD, None, "Older name of delegation.token.secret.key."),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        LONG,
        604800000,
        "Maximum lifetime of a delegation token, including renewals, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        LONG,
        86400000,
        "Time after which a delegation token expires unless it is renewed, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.max.per.user",
        INT,
        1000,
        (
            "Maximum number of delegation tokens per user, including expired tokens that are not removed yet "
            "(pybroker's own setting)."
        ),
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        "Interval at which expired delegation tokens are removed, in ms.",
        at_least(1),
    ),
)

SASL = (
    ConfigKey(
        "sasl.enabled.mechanisms",
        LIST,
        MECHANISMS,
        (
            "SASL mechanisms of SASL_PLAINTEXT and SASL_SSL listeners; for one listener: "
            "listener.name.<listener>.sasl.enabled.mechanisms. PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; "
            "Kafka's default GSSAPI is not supported."
        ),
        check_mechanisms,
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        (
            "SASL mechanism of brokers on a SASL inter.broker.listener.name: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "
            "OAUTHBEARER. Kafka's default GSSAPI is not supported."
        ),
        None,
        Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        INT,
        65536,
        "Maximum size of a request before the client has authenticated, in bytes (Kafka: 524288).",
        at_least(256),
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        LONG,
        0,
        "Time after which a SASL client must authenticate again, in ms (KIP-368); 0 means never.",
        at_least(0),
    ),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "Delay of the response to a failed authentication, in ms; it slows down password guessing.",
        at_least(0),
    ),
    ConfigKey(
        "connection.authentication.timeout.ms",
        INT,
        10000,
        "Time within which a client of a SASL listener must authenticate, in ms. Not one of Kafka's settings.",
        at_least(100),
    ),
)

AUTHORIZATION = (
    ConfigKey(
        "authorizer.class.name",
        STRING,
        "",
        (
            "Enables access control; unset, every client may do everything. Both of Kafka's class names select this "
            "broker's authorizer."
        ),
        _authorizer,
    ),
    ConfigKey(
        "super.users",
        STRING,
        "",
        "Principals that may do everything, such as User:alice;User:bob.",
        _super_users,
    ),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "Allow every client to use resources without ACL entries.",
    ),
)
