"""Broker settings for client tokens of an identity provider (SASL OAUTHBEARER; KIP-255, KIP-768), under Kafka's names:
for all listeners, for one by `listener.name.<listener>.…`, or by `listener.name.<listener>.oauthbearer.…`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pybroker.config.listener_addresses import is_loopback
from pybroker.config.setting_values import ConfigKey, ConfigType, InvalidValue, Value, at_least, not_empty
from pybroker.config.stores import StoreFile, StoreText

BOOLEAN, STRING, INT, LONG, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
)

OAUTHBEARER = "OAUTHBEARER"

URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
AUDIENCE, ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
ANY_AUDIENCE, ANY_ISSUER = "sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"


def _url(value: Value) -> None:
    if value is None:
        return
    parts = urlsplit(str(value))
    if parts.scheme == "file" and parts.path and parts.netloc in ("", "localhost"):
        return
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InvalidValue("expected https://host/path or file:///path")
    if parts.username or parts.password:
        raise InvalidValue("a JWKS is public; remove user and password from its URL")


OAUTH = (
    ConfigKey(
        URL,
        STRING,
        None,
        (
            "URL of the identity provider's keys (JWKS, RFC 7517): https://… or file:///…. Required if "
            "sasl.enabled.mechanisms contains OAUTHBEARER."
        ),
        _url,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        (
            "Interval at which the keys are fetched, in ms; a token with an unknown key triggers a fetch. Files "
            "are read again when they change."
        ),
        at_least(1),
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "First pause after the keys could not be fetched, in ms; it doubles after each failure.",
        at_least(1),
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        "Longest pause after a failed fetch, in ms.",
        at_least(1),
    ),
    ConfigKey(
        ALLOWED,
        LIST,
        (),
        (
            "Plain-http URLs on other machines from which keys may be fetched, although an attacker on the network can "
            "replace them. In Kafka this is a system property of the JVM."
        ),
    ),
    ConfigKey(AUDIENCE, LIST, (), "Accepted audiences: one of them must be in the token's aud claim."),
    ConfigKey(ISSUER, STRING, None, "Required issuer of tokens (iss claim).", not_empty),
    ConfigKey(
        ANY_AUDIENCE, BOOLEAN, False, "Accept tokens for any or no audience if no expected audience is configured."
    ),
    ConfigKey(ANY_ISSUER, BOOLEAN, False, "Accept tokens of any or no issuer if no expected issuer is configured."),
    ConfigKey("sasl.oauthbearer.scope.claim.name", STRING, "scope", "Claim with the scope of a token.", not_empty),
    ConfigKey("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Claim with the user's name.", not_empty),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "Tolerated difference between the clocks of broker and identity provider, in seconds.",
        at_least(0),
    ),
)
"""These settings are read at startup."""

BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in OAUTH}


class OAuthSettings(NamedTuple):
    """The checked settings of one listener. The files and URLs in them have not been read yet."""

    url: str
    truststore: StoreFile | StoreText | None
    """Trusted authorities for the URL's certificate; None: the authorities of the system."""
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int
    audiences: tuple[str, ...]
    """Accepted audiences; empty: every audience is accepted."""
    issuer: str | None
    """Accepted issuer; None: every issuer is accepted."""
    scope_claim: str
    sub_claim: str
    skew_s: int

    @property
    def file(self) -> str | None:
        """The path if the keys are in a file, else None."""
        parts = urlsplit(self.url)
        return unquote(parts.path) if parts.scheme == "file" else None


def oauth_settings(values: Mapping[str, Value], jaas: Mapping[str, str]) -> OAuthSettings:
    """Check the OAUTHBEARER settings of one listener: the effective values by name, and the login module's options.
    Raises InvalidValue, which names the settings, if they are invalid.
    """

    def number(name: str) -> int:
        value = values[name]
        assert type(value) is int, name
        return value

    if values[URL] is None:
        raise InvalidValue(f"OAUTHBEARER requires {URL}, the URL of the keys that verify tokens")
    _check_plaintext(str(values[URL]), values[ALLOWED])
    audiences = values[AUDIENCE] or ()
    assert isinstance(audiences, tuple)
    audiences = tuple(audience for audience in audiences if audience)
    for accepted, name, opened in ((audiences, AUDIENCE, ANY_AUDIENCE), (values[ISSUER], ISSUER, ANY_ISSUER)):
        if not accepted and not values[opened]:
            raise InvalidValue(f"OAUTHBEARER requires {name}, or {opened}=true")
    issuer = values[ISSUER]
    return OAuthSettings(
        str(values[URL]),
        _truststore(jaas),
        number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        audiences,
        None if issuer is None else str(issuer),
        str(values["sasl.oauthbearer.scope.claim.name"]),
        str(values["sasl.oauthbearer.sub.claim.name"]),
        number("sasl.oauthbearer.clock.skew.seconds"),
    )


def _check_plaintext(url: str, allowed: Value) -> None:
    parts = urlsplit(url)
    assert isinstance(allowed, tuple | None)
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and url not in (allowed or ()):
        raise InvalidValue(
            f"{URL}={url}: an attacker on the network can replace keys sent over plain http; use https, or add the "
            f"URL to {ALLOWED}"
        )


TRUSTSTORE = "ssl.truststore."


def _truststore(jaas: Mapping[str, str]) -> StoreFile | StoreText | None:
    location, text = jaas.get(f"{TRUSTSTORE}location"), jaas.get(f"{TRUSTSTORE}certificates")
    if location is not None:
        return StoreFile(TRUSTSTORE, jaas.get(f"{TRUSTSTORE}type", "JKS"), location, jaas.get(f"{TRUSTSTORE}password"))
    return None if text is None else StoreText(f"{TRUSTSTORE}certificates", text)
