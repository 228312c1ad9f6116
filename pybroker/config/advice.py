"""Startup warnings about settings that are valid but may surprise the operator."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.foreign_settings import OF_THE_PAST
from pybroker.config.listener_addresses import Listener, is_loopback
from pybroker.config.topic_defs import BROKER_SYNONYM

SHORT_DELAY_MS = 60_000
"""Milliseconds. A lower `delete.topic.delay.ms` causes a warning, because the operator probably meant seconds."""


class UnusedSettings(msgspec.Struct):
    """Names of settings that have no effect, grouped by origin."""

    of_kafka: list[str] = []
    of_the_past: list[str] = []
    of_others: list[str] = []
    unknown: list[str] = []


def warnings(config: BrokerConfig, unused: UnusedSettings) -> list[str]:
    """Return one sentence for each surprise."""
    return [*_security(config), *_exposure(config), *_rest(config), *_unused(unused)]


def _security(config: BrokerConfig) -> Iterator[str]:
    sasl = [listener for listener in config.listeners if listener.protocol.startswith("SASL_")]
    for listener in sasl:
        security = config.listener_security(listener.name)
        if security.mechanisms == ("PLAIN",) and not security.plain_users:
            yield (
                f"No client can authenticate on listener {listener.name}: PLAIN is its only mechanism, and "
                f"listener.name.{listener.name.lower()}.plain.sasl.jaas.config has no user"
            )
        oauth = config.listener_oauth(listener.name)
        url = urlsplit(oauth.url) if oauth is not None else None
        if oauth is not None and url is not None and url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield (
                f"Listener {listener.name} verifies tokens with keys from {oauth.url} over plain HTTP: an attacker on "
                "the network can replace the keys; use https"
            )
    if not config.get_str("authorizer.class.name"):
        if config.get_str("super.users"):
            yield "super.users has no effect without authorizer.class.name"
        if sasl:
            yield (
                "Clients authenticate, but every authenticated client may do everything; set authorizer.class.name "
                "to restrict them"
            )


def _exposure(config: BrokerConfig) -> Iterator[str]:
    """Yield one line that covers all listeners."""
    open_ones = [
        listener for listener in config.listeners if _asks_nobody(config, listener) and not is_loopback(listener.host)
    ]
    if open_ones:
        right = "may do everything"
        if config.get_str("authorizer.class.name"):
            right = "has the rights of User:ANONYMOUS"
        yield (
            f"Listeners reachable from other machines without authentication: {', '.join(map(str, open_ones))}; every "
            f"client {right}; use SASL_PLAINTEXT or SASL_SSL to authenticate clients"
        )


def _asks_nobody(config: BrokerConfig, listener: Listener) -> bool:
    if listener.protocol == "SSL":
        return config.listener_tls(listener.name).client_auth != "required"
    return listener.protocol == "PLAINTEXT"


def _unused(unused: UnusedSettings) -> Iterator[str]:
    if unused.of_kafka:
        yield "Kafka settings that have no effect in this broker: " + ", ".join(sorted(unused.of_kafka))
    past = [f"{name} (now {now})" if (now := OF_THE_PAST[name]) else name for name in sorted(unused.of_the_past)]
    ignored = (
        ("from earlier releases of Apache Kafka", past),
        ("from other products", sorted(unused.of_others)),
        ("unknown to this broker and to Apache Kafka", [_hinted(name) for name in sorted(unused.unknown)]),
    )
    text = "; ".join(f"{what}: {', '.join(names)}" for what, names in ignored if names)
    if text:
        yield f"Settings that this broker ignores: {text}"


def _hinted(name: str) -> str:
    """Return a topic setting that was found in a broker's file, with a hint at the broker setting for the default of
    all topics."""
    return f"{name} (a topic setting; the broker setting is {BROKER_SYNONYM[name]})" if name in BROKER_SYNONYM else name


def _rest(config: BrokerConfig) -> Iterator[str]:
    if config["delete.topic.delay.ms"] < SHORT_DELAY_MS:
        yield (
            f"delete.topic.delay.ms={config['delete.topic.delay.ms']}: the data of deleted topics is removed within a "
            "minute and cannot be undeleted"
        )
