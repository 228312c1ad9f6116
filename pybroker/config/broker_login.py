"""How this broker logs in to other brokers, under Kafka's names: `sasl.mechanism.inter.broker.protocol`, user and
password in `listener.name.<listener>.<mechanism>.sasl.jaas.config`, and the listener's `ssl.*` settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_oauth import OAUTHBEARER
from pybroker.config.broker_security import SERVED, super_users
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.listener_addresses import Listener
from pybroker.config.listener_settings import JAAS, PREFIX, listener_setting, login_of
from pybroker.config.setting_values import InvalidValue

MECHANISM = "sasl.mechanism.inter.broker.protocol"


class BrokerLogin(msgspec.Struct, frozen=True):
    """The identity and the credentials of a broker at other brokers. Its repr shows no secret."""

    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    tls: TlsSettings | None = None
    token: Mapping[str, str] = {}
    """With OAUTHBEARER: the client settings for the source of the token."""

    def __repr__(self) -> str:
        return f"BrokerLogin({self.protocol}, {self.mechanism}, {self.user})"

    @property
    def principal(self) -> str | None:
        """Return the principal of brokers that log in with these credentials. None if there is no login, or if brokers
        use tokens, because the token then determines the principal."""
        return f"User:{self.user}" if self.user else None

    @property
    def certified(self) -> bool:
        """Whether brokers authenticate with TLS client certificates."""
        return not self.mechanism and self.tls is not None and self.tls.client_auth == "required"

    def client_settings(self) -> Mapping[str, str]:
        """Return the client settings for connections to other brokers."""
        settings = {"security.protocol": self.protocol}
        if self.token:
            settings |= {"sasl.mechanism": self.mechanism, **self.token}
        elif self.mechanism:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return settings | (self.tls.client_settings() if self.tls else {})


def broker_login(config: BrokerConfig) -> BrokerLogin:
    """Return the login of a broker in a cluster. Raises InvalidValue if it is invalid or missing; the text contains no
    password.
    """
    listener = next(listener for listener in config.listeners if listener.name == config.between_brokers)
    tls = _tls(config, listener) if listener.protocol.endswith("SSL") else None
    if not listener.protocol.startswith("SASL_"):
        return BrokerLogin(listener.protocol, tls=tls)
    mechanism = config.get_str(MECHANISM)
    served = config.listener_security(listener.name).mechanisms
    if mechanism not in SERVED:
        raise InvalidValue(f"{MECHANISM}={mechanism}: unsupported for brokers; use one of {', '.join(SERVED)}")
    if mechanism not in served:
        raise InvalidValue(f"{MECHANISM}={mechanism}: listener {listener.name} serves {', '.join(served)} only")
    if mechanism == OAUTHBEARER:
        return _by_token(config, listener, tls)
    name = f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.{JAAS}"
    for setting_name, text in config.listener_settings.items():
        setting = listener_setting(setting_name)
        if setting is not None and setting[:] == (listener.name, mechanism, JAAS):
            user, password = login_of(text)
            if user and password:
                return BrokerLogin(listener.protocol, mechanism, user, password, tls)
    raise InvalidValue(f'brokers log in with {mechanism}: {name} requires username="<name>" password="<password>"')


def _by_token(config: BrokerConfig, listener: Listener, tls: TlsSettings | None) -> BrokerLogin:
    if not config.get_str("authorizer.class.name") and not super_users(config.get_str("super.users")):
        raise InvalidValue(
            f"{MECHANISM}={OAUTHBEARER}: the broker users are unknown; name the users of the brokers' tokens in "
            "super.users, or set authorizer.class.name and allow them CLUSTER_ACTION"
        )
    return BrokerLogin(listener.protocol, OAUTHBEARER, tls=tls, token=config.listener_token(listener.name))


def _tls(config: BrokerConfig, listener: Listener) -> TlsSettings:
    """Return the TLS settings of the inter-broker listener. The broker also uses the listener's certificate as a
    client."""
    tls = config.listener_tls(listener.name)
    if tls.truststore is None:
        raise InvalidValue(
            f"{listener} uses {listener.protocol}, and brokers verify each other's certificates: set "
            "ssl.truststore.location or ssl.truststore.certificates"
        )
    return tls
