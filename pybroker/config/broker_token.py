"""Broker settings: the source of a broker's own token for other brokers (SASL OAUTHBEARER; KIP-768, KIP-1139), under
Kafka's names, for all listeners or by `listener.name.<listener>.…` and `listener.name.<listener>.oauthbearer.…`.
"""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from collections.abc import Mapping

from pybroker.config.values import ConfigKey, ConfigType, InvalidValue, Value, at_least, render_value

STRING, PASSWORD, INT, LONG = ConfigType.STRING, ConfigType.PASSWORD, ConfigType.INT, ConfigType.LONG

URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE = "sasl.oauthbearer.scope"
LOGIN_HANDLER = "sasl.login.callback.handler.class"

OF_JAAS = {"clientId": CLIENT, "clientSecret": SECRET, "scope": SCOPE}
"""Options of the login module that equal a setting."""

TOKEN = (
    ConfigKey(
        URL,
        STRING,
        None,
        "Where this broker has the token from that it shows other brokers, with sasl.mechanism.inter.broker.protocol=OAUTHBEARER: https://… is asked with the client's name and secret, file:///… is read at each login.",
    ),
    ConfigKey(CLIENT, STRING, None, "The broker's name at its identity provider; clientId of sasl.jaas.config is the same."),
    ConfigKey(SECRET, PASSWORD, None, "Its secret there; clientSecret of sasl.jaas.config is the same."),
    ConfigKey(SCOPE, STRING, None, "The scope that the broker asks for; scope of sasl.jaas.config is the same."),
    ConfigKey("sasl.login.read.timeout.ms", INT, None, "Longest wait for an answer of the identity provider, in ms; unset, 10 s."),
    ConfigKey("sasl.login.retry.backoff.ms", LONG, 100, "First pause before a token is asked for again, in ms; it doubles.", at_least(1)),
    ConfigKey("sasl.login.retry.backoff.max.ms", LONG, 10000, "How long that is tried, in ms.", at_least(0)),
)
"""Read at startup."""

BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in TOKEN}


def token_settings(values: Mapping[str, Value], jaas: Mapping[str, str]) -> dict[str, str]:
    """Return the client settings from the effective values of one listener, by name, and its login module's options.
    Raises InvalidValue, whose text names the settings.
    """
    if values[URL] is None:
        raise InvalidValue(f"brokers log in by OAUTHBEARER: {URL} says where their tokens are from")
    found = {name: text for name, value in values.items() if (text := render_value(value)) is not None}
    options = {OF_JAAS[name]: text for name, text in jaas.items() if name in OF_JAAS}
    found |= {name: text for name, text in options.items() if name not in found}
    if not found[URL].startswith("file:"):
        for name in (CLIENT, SECRET):
            if name not in found:
                raise InvalidValue(f"{URL}={found[URL]} needs {name}")
    return found
