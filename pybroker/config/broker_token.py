"""Broker settings: the source of a broker's own token for other brokers (SASL OAUTHBEARER; KIP-768, KIP-1139), under
Kafka's names, for all listeners or by `listener.name.<listener>.…` and `listener.name.<listener>.oauthbearer.…`.
"""


from __future__ import annotations

from collections.abc import Mapping

from pybroker.config.setting_values import ConfigKey, ConfigType, InvalidValue, Value, at_least, render_value

STRING, PASSWORD, INT, LONG = ConfigType.STRING, ConfigType.PASSWORD, ConfigType.INT, ConfigType.LONG

URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE = "sasl.oauthbearer.scope"
LOGIN_HANDLER = "sasl.login.callback.handler.class"

OF_JAAS = {"clientId": CLIENT, "clientSecret": SECRET, "scope": SCOPE}
"""Options of the login module with the same meaning as a setting."""

TOKEN = (
    ConfigKey(
        URL,
        STRING,
        None,
        (
            "Source of this broker's token for other brokers, with sasl.mechanism.inter.broker.protocol=OAUTHBEARER: "
            "https://… is requested with the client's id and secret, file:///… is read at each login."
        ),
    ),
    ConfigKey(
        CLIENT, STRING, None, "Client id of the broker at its identity provider; same as clientId in sasl.jaas.config."
    ),
    ConfigKey(SECRET, PASSWORD, None, "Client secret of the broker; same as clientSecret in sasl.jaas.config."),
    ConfigKey(SCOPE, STRING, None, "Scope of the requested token; same as scope in sasl.jaas.config."),
    ConfigKey("sasl.login.read.timeout.ms", INT, None, "Timeout of a token request, in ms. Unset: 10 s."),
    ConfigKey(
        "sasl.login.retry.backoff.ms",
        LONG,
        100,
        "First pause before a failed token request is retried, in ms; it doubles after each failure.",
        at_least(1),
    ),
    ConfigKey("sasl.login.retry.backoff.max.ms", LONG, 10000, "Total time of these retries, in ms.", at_least(0)),
)
"""These settings are read at startup."""

BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in TOKEN}


def token_settings(values: Mapping[str, Value], jaas: Mapping[str, str]) -> dict[str, str]:
    """Return the client settings. `values` has the effective values of one listener's settings, `jaas` the options of
    its login module. Raises InvalidValue, which names the settings, if a required one is missing.
    """
    if values[URL] is None:
        raise InvalidValue(f"brokers log in with OAUTHBEARER: set {URL} to the source of their tokens")
    found = {name: text for name, value in values.items() if (text := render_value(value)) is not None}
    options = {OF_JAAS[name]: text for name, text in jaas.items() if name in OF_JAAS}
    found |= {name: text for name, text in options.items() if name not in found}
    if not found[URL].startswith("file:"):
        for name in (CLIENT, SECRET):
            if name not in found:
                raise InvalidValue(f"{URL}={found[URL]} requires {name}")
    return found
