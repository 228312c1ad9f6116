"""Settings of one listener, in Kafka's notation: `listener.name.<listener>.<setting>` and, for SASL,
`listener.name.<listener>.<mechanism>.<setting>`. Only settings with an effect are here; `foreign_settings` has the
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pybroker.config.broker_oauth import BY_NAME as OAUTH
from pybroker.config.broker_oauth import OAUTHBEARER, TRUSTSTORE
from pybroker.config.broker_security import SERVED, check_mechanisms
from pybroker.config.broker_tls import BY_NAME as TLS
from pybroker.config.broker_token import BY_NAME as TOKEN
from pybroker.config.broker_token import LOGIN_HANDLER, OF_JAAS
from pybroker.config.definition import nearest_name
from pybroker.config.jaas import module_of, options
from pybroker.config.setting_values import ConfigType, InvalidValue, at_least, parse_value

PREFIX = "listener.name."
JAAS = "sasl.jaas.config"
REAUTH = "connections.max.reauth.ms"
ENABLED = "sasl.enabled.mechanisms"
CREATION_RATE = "max.connection.creation.rate"

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

HANDLER = "sasl.server.callback.handler.class"
_VALIDATORS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{place}OAuthBearerValidatorCallbackHandler"
    for place in ("", "secured.")
)
"""Kafka's classes that validate tokens with the provider's keys. They are accepted, because the broker itself does the
same."""

_LOGINS = tuple(validator.replace("Validator", "Login") for validator in _VALIDATORS)
"""Kafka's classes that fetch tokens. They are accepted, because the broker itself does the same."""


class ListenerSetting(NamedTuple):
    """The parts of a listener setting's name."""

    listener: str
    mechanism: str | None
    name: str

    @property
    def sensitive(self) -> bool:
        """Whether the value is secret: JAAS texts with passwords, and keys."""
        return self.name == JAAS or any(self.name in of and of[self.name].sensitive for of in (TLS, TOKEN))


def listener_setting(name: str) -> ListenerSetting | None:
    """Split a name into its parts. Return None if it is not a listener setting that has an effect in pybroker."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    if rest in (ENABLED, REAUTH, CREATION_RATE) or rest in TLS or rest in OAUTH or rest in TOKEN:
        return ListenerSetting(listener.upper(), None, rest)
    mechanism, _, rest = rest.partition(".")
    of_tokens = rest in (HANDLER, LOGIN_HANDLER) or rest in OAUTH or rest in TOKEN
    of_mechanism = rest in (JAAS, REAUTH) or (mechanism.upper() == OAUTHBEARER and of_tokens)
    if mechanism.upper() in SERVED and of_mechanism:
        return ListenerSetting(listener.upper(), mechanism.upper(), rest)
    return None


def nearest_listener_setting(name: str) -> str | None:
    """Return the listener setting that a misspelt name probably means."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    mechanism, _, of_mechanism = rest.partition(".")
    before, wanted, known = f"{PREFIX}{listener}", rest, (ENABLED, REAUTH, CREATION_RATE, *TLS, *OAUTH, *TOKEN)
    if mechanism.upper() in SERVED:
        before, wanted, known = f"{before}.{mechanism}", of_mechanism, (JAAS, REAUTH, HANDLER, LOGIN_HANDLER)
    nearest = nearest_name(wanted, known)
    return None if nearest is None else f"{before}.{nearest}"


class ListenerSecurity(NamedTuple):
    """The SASL settings of one listener. Its repr shows no password."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]
    """User name → password, for PLAIN."""
    reauth_ms: Mapping[str, int]
    """Reauthentication interval in milliseconds by mechanism; 0 = never."""

    def __repr__(self) -> str:
        return f"ListenerSecurity(mechanisms={self.mechanisms}, users={sorted(self.plain_users)})"


def listener_security(
    listener: str, settings: Mapping[str, str], mechanisms: tuple[str, ...], reauth_ms: int
) -> ListenerSecurity:
    """Return the SASL settings of a listener from all `listener.name.…` settings and the defaults. Raises InvalidValue
    if one is invalid.
    """
    users: Mapping[str, str] = {}
    of_mechanism: dict[str, int] = {}
    for name, text in settings.items():
        setting = listener_setting(name)
        if setting is None or setting.listener != listener:
            continue
        if setting.name == ENABLED:
            mechanisms = enabled_mechanisms(text)
        elif setting.name == JAAS:
            if setting.mechanism == "PLAIN":
                users = plain_users(text)
        elif setting.name != REAUTH:
            continue
        elif setting.mechanism is None:
            reauth_ms = _reauth_ms(text)
        else:
            of_mechanism[setting.mechanism] = _reauth_ms(text)
    return ListenerSecurity(
        mechanisms, users, {mechanism: of_mechanism.get(mechanism, reauth_ms) for mechanism in mechanisms}
    )


def check_listener_setting(setting: ListenerSetting, text: str) -> None:
    """Raise InvalidValue if a value is invalid. The error contains no value that may be a password."""
    if setting.name in TLS:
        TLS[setting.name].parse(text)
    elif setting.name in OAUTH:
        OAUTH[setting.name].parse(text)
    elif setting.name in TOKEN:
        TOKEN[setting.name].parse(text)
    elif setting.name == LOGIN_HANDLER:
        if text not in _LOGINS:
            raise InvalidValue(f"this broker fetches tokens itself; set {_LOGINS[0]} or remove the line")
    elif setting.name == HANDLER:
        if text not in _VALIDATORS:
            raise InvalidValue(f"this broker verifies tokens itself; set {_VALIDATORS[0]} or remove the line")
    elif setting.name == ENABLED:
        enabled_mechanisms(text)
    elif setting.name == REAUTH:
        _reauth_ms(text)
    elif setting.name == CREATION_RATE:
        _creation_rate(text)
    elif setting.mechanism == "PLAIN":
        plain_users(text)
    elif setting.mechanism == OAUTHBEARER:
        oauth_options(text)


def enabled_mechanisms(text: str) -> tuple[str, ...]:
    """Return the mechanisms of one listener. Raises InvalidValue if one is not supported."""
    mechanisms = tuple(part.strip() for part in text.split(",") if part.strip())
    check_mechanisms(mechanisms)
    return mechanisms


def _reauth_ms(text: str) -> int:
    value = parse_value(REAUTH, ConfigType.LONG, text)
    at_least(0)(value)
    assert isinstance(value, int)
    return value


def connection_rates(settings: Mapping[str, str]) -> str:
    """Return `max.connection.creation.rate` of single listeners as `NAME:rate` pairs for native code. The input is all
    `listener.name.…` settings.
    """
    found = ((listener_setting(name), text) for name, text in settings.items())
    return ",".join(
        f"{setting.listener}:{_creation_rate(text)}"
        for setting, text in found
        if setting is not None and setting.name == CREATION_RATE
    )


def _creation_rate(text: str) -> int:
    value = parse_value(CREATION_RATE, ConfigType.INT, text)
    at_least(0)(value)
    assert isinstance(value, int)
    return value


def plain_users(jaas: str) -> dict[str, str]:
    """Return user → password of a JAAS entry as in Kafka: `…PlainLoginModule required user_alice="secret";`. Raises
    InvalidValue if it is malformed; the text does not contain `jaas`.
    """
    users: dict[str, str] = {}
    for name, value in options(jaas, PLAIN_MODULE, 'user_<name>="<password>" …').items():
        if name.startswith("user_") and len(name) > len("user_"):
            if not value:
                raise InvalidValue(f"the password of user {name.removeprefix('user_')!r} is empty")
            users[name.removeprefix("user_")] = value
    return users


def login_of(jaas: str) -> tuple[str, str]:
    """Return `username` and `password` of a JAAS entry of PLAIN or SCRAM, with which a broker logs in to other brokers;
    "" if missing. Raises InvalidValue if the entry is malformed; the text does not contain `jaas`.
    """
    module = SCRAM_MODULE if module_of(jaas) == SCRAM_MODULE else PLAIN_MODULE
    found = options(jaas, module, 'username="<name>" password="<password>"')
    return found.get("username", ""), found.get("password", "")


def oauth_options(jaas: str) -> dict[str, str]:
    """Return the options of an OAUTHBEARER JAAS entry: `ssl.truststore.…`, the trusted authorities for the URLs of keys
    and tokens; `clientId`, `clientSecret` and `scope`, with which this broker requests its own token.

    Raises InvalidValue if it is malformed; the text does not contain `jaas`.
    """
    found = options(jaas, OAUTH_MODULE, f'{TRUSTSTORE}location="<file>" …')
    for name in found:
        if name.startswith("unsecured"):
            raise InvalidValue(f"{name}: unsigned tokens are not supported; remove it")
        known = (*OF_JAAS, *(f"{TRUSTSTORE}{part}" for part in ("location", "type", "password", "certificates")))
        if name not in known and not name.startswith("extension_"):
            raise InvalidValue(f"{name} is not supported here; remove it")
    return found
