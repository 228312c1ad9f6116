"""Broker settings for client tokens of an identity provider (SASL OAUTHBEARER; KIP-255, KIP-768), under Kafka's names:
for all listeners, for one by `listener.name.<listener>.…`, or by `listener.name.<listener>.oauthbearer.…`.
"""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pybroker.config.listeners import is_loopback
from pybroker.config.stores import StoreFile, StoreText
from pybroker.config.values import ConfigKey, ConfigType, InvalidValue, Value, at_least, not_empty

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
        raise InvalidValue("a JWKS is public; take user and password out of its URL")


OAUTH = (
    ConfigKey(
        URL,
        STRING,
        None,
        "Where the identity provider's keys are (JWKS, RFC 7517): https://… or file:///…. Needed where sasl.enabled.mechanisms has OAUTHBEARER.",
        _url,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        "How often the keys are fetched anew, in ms; a token with an unknown key has it done before. Files are read again when they change.",
        at_least(1),
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "First pause after the keys could not be fetched, in ms; it doubles.",
        at_least(1),
    ),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000, "Longest such pause, in ms.", at_least(1)),
    ConfigKey(
        ALLOWED,
        LIST,
        (),
        "URLs by plain http, besides those of this machine, that keys are fetched from although others on the way can replace them. Kafka has it as a property of the JVM.",
    ),
    ConfigKey(AUDIENCE, LIST, (), "One of these must be among a token's audiences (aud)."),
    ConfigKey(ISSUER, STRING, None, "Who must have issued a token (iss).", not_empty),
    ConfigKey(ANY_AUDIENCE, BOOLEAN, False, "Take tokens for any audience, or for none, where no audience is expected."),
    ConfigKey(ANY_ISSUER, BOOLEAN, False, "Take tokens of any issuer, or of none, where no issuer is expected."),
    ConfigKey("sasl.oauthbearer.scope.claim.name", STRING, "scope", "Which claim has a token's scope.", not_empty),
    ConfigKey("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Which claim has the user's name.", not_empty),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "By how much the clocks of broker and identity provider may differ, in seconds.",
        at_least(0),
    ),
)
"""Read at startup."""

BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in OAUTH}


class OAuthSettings(NamedTuple):
    """The checked settings of one listener; nothing has been read or downloaded yet."""

    url: str
    truststore: StoreFile | StoreText | None
    """Trusted authorities for the URL's certificate; None: the system's."""
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int
    audiences: tuple[str, ...]
    """Accepted audiences; empty: any."""
    issuer: str | None
    """Accepted issuer; None: any."""
    scope_claim: str
    sub_claim: str
    skew_s: int

    @property
    def file(self) -> str | None:
        """The path if the keys are in a file, else None."""
        parts = urlsplit(self.url)
        return unquote(parts.path) if parts.scheme == "file" else None


def oauth_settings(values: Mapping[str, Value], jaas: Mapping[str, str]) -> OAuthSettings:
    """Check the effective values of one listener, by name, and its login module's options. Raises InvalidValue, whose
    text names the settings.
    """

    def number(name: str) -> int:
        value = values[name]
        assert type(value) is int, name
        return value

    if values[URL] is None:
        raise InvalidValue(f"OAUTHBEARER needs {URL}: by whose keys tokens are checked")
    _check_plaintext(str(values[URL]), values[ALLOWED])
    audiences = values[AUDIENCE] or ()
    assert isinstance(audiences, tuple)
    audiences = tuple(one for one in audiences if one)
    for given, name, opened in ((audiences, AUDIENCE, ANY_AUDIENCE), (values[ISSUER], ISSUER, ANY_ISSUER)):
        if not given and not values[opened]:
            raise InvalidValue(f"OAUTHBEARER needs {name}, or {opened}=true")
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
            f"{URL}={url}: by plain http others on the way can replace the keys; use https, or name the URL in {ALLOWED}"
        )


TRUSTSTORE = "ssl.truststore."


def _truststore(jaas: Mapping[str, str]) -> StoreFile | StoreText | None:
    location, text = jaas.get(f"{TRUSTSTORE}location"), jaas.get(f"{TRUSTSTORE}certificates")
    if location is not None:
        return StoreFile(
            TRUSTSTORE, jaas.get(f"{TRUSTSTORE}type", "JKS"), location, jaas.get(f"{TRUSTSTORE}password")
        )
    return None if text is None else StoreText(f"{TRUSTSTORE}certificates", text)
