"""Broker settings: authentication (SASL) and authorization (ACLs)."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.broker_oauth import OAUTHBEARER
from pybroker.config.values import ConfigKey, ConfigType, InvalidValue, Scope, Value, at_least
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
"""SASL mechanisms with passwords; the default of the enabled mechanisms."""

SERVED = (*MECHANISMS, OAUTHBEARER)
"""SASL mechanisms that the broker supports."""

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's names of its authorizers; both enable the same one here."""


def check_mechanisms(value: Value) -> None:
    """Raise InvalidValue for an unsupported mechanism, whose clients could otherwise not log in without any hint."""
    for mechanism in value if isinstance(value, tuple) else ():
        if mechanism not in SERVED:
            raise InvalidValue(f"mechanism {mechanism!r} is not served; this broker serves {', '.join(SERVED)}")


def super_users(text: str) -> tuple[str, ...]:
    """Return the principals of a `super.users` value. Raises InvalidValue."""
    users = tuple(part.strip() for part in text.split(";") if part.strip())
    for user in users:
        kind, colon, name = user.partition(":")
        if not colon or not kind or not name:
            raise InvalidValue(f"expected Type:name;Type:name…, for instance User:admin, found {user!r}")
    return users


def _authorizer(value: Value) -> None:
    if value not in ("", *AUTHORIZERS):
        raise InvalidValue(f"this broker has an authorizer of its own; switch it on by {' or '.join(AUTHORIZERS)}")


def _super_users(value: Value) -> None:
    super_users(str(value or ""))


DELEGATION_TOKENS = (
    ConfigKey(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "Secret under which delegation tokens are made and checked, the same on all brokers. Without it there are none.",
    ),
    ConfigKey("delegation.token.master.key", PASSWORD, None, "Older name of delegation.token.secret.key."),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        LONG,
        604800000,
        "Longest life of a delegation token, renewed or not, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        LONG,
        86400000,
        "How long a delegation token is valid before it has to be renewed, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.max.per.user",
        INT,
        1000,
        "Most delegation tokens that one user has, expired ones that are not removed yet included (pybroker's own setting).",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        "How often delegation tokens that have expired are removed, in ms.",
        at_least(1),
    ),
)

SASL = (
    ConfigKey(
        "sasl.enabled.mechanisms",
        LIST,
        MECHANISMS,
        "SASL mechanisms of listeners with SASL_PLAINTEXT or SASL_SSL, for one listener: listener.name.<listener>.sasl.enabled.mechanisms. PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; Kafka's default is GSSAPI, which is not served here.",
        check_mechanisms,
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "By which mechanism brokers of a cluster log in to each other, where inter.broker.listener.name asks for SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Kafka's default is not served here.",
        None,
        Scope.PER_BROKER,
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        INT,
        65536,
        "Largest request of a client that has not authenticated yet, in bytes (Kafka: 524288).",
        at_least(256),
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        LONG,
        0,
        "A client of a listener with SASL must authenticate again within this time, in ms (KIP-368); 0 never.",
        at_least(0),
    ),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long the answer to a failed authentication is held back, in ms; it slows guessing down.",
        at_least(0),
    ),
    ConfigKey(
        "connection.authentication.timeout.ms",
        INT,
        10000,
        "A client of a listener with SASL must have authenticated within this time, in ms. Not one of Kafka's settings.",
        at_least(100),
    ),
)

AUTHORIZATION = (
    ConfigKey(
        "authorizer.class.name",
        STRING,
        "",
        "Switches access control on; without it everybody who can connect may do everything. Both of Kafka's names mean the authorizer of this broker.",
        _authorizer,
    ),
    ConfigKey(
        "super.users",
        STRING,
        "",
        "Principals that may do everything, as User:alice;User:bob.",
        _super_users,
    ),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "Whether everybody may use what no access control list is about.",
    ),
)
