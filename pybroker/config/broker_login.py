"""How this broker logs in to others, under Kafka's names: `sasl.mechanism.inter.broker.protocol`, and user and password
in `listener.name.<listener>.<mechanism>.sasl.jaas.config`, where Kafka's brokers have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_security import MECHANISMS
from pybroker.config.listener_settings import JAAS, PREFIX, listener_setting, login_of
from pybroker.config.values import InvalidValue

MECHANISM = "sasl.mechanism.inter.broker.protocol"


class BrokerLogin(NamedTuple):
    """As whom, by what."""

    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"BrokerLogin({self.protocol}, {self.mechanism}, {self.user})"

    @property
    def principal(self) -> str | None:
        """Of brokers that log in as this one does; None without login."""
        return f"User:{self.user}" if self.mechanism else None

    def client_settings(self) -> Mapping[str, str]:
        """For the asking side of connections."""
        if not self.mechanism:
            return {"security.protocol": self.protocol}
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }


def broker_login(config: BrokerConfig) -> BrokerLogin:
    """Of a broker in a cluster. Raises InvalidValue, never with a password in it."""
    listener = next(one for one in config.listeners if one.name == config.between_brokers)
    if not listener.protocol.startswith("SASL_"):
        return BrokerLogin(listener.protocol)
    mechanism = config.get_str(MECHANISM)
    served = config.listener_security(listener.name).mechanisms
    if mechanism not in MECHANISMS:
        raise InvalidValue(f"{MECHANISM}={mechanism}: brokers log in by one of {', '.join(MECHANISMS)}")
    if mechanism not in served:
        raise InvalidValue(f"{MECHANISM}={mechanism}: listener {listener.name} serves {', '.join(served)} only")
    name = f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.{JAAS}"
    for given, text in config.listener_settings.items():
        setting = listener_setting(given)
        if setting is not None and setting[:] == (listener.name, mechanism, JAAS):
            user, password = login_of(text)
            if user and password:
                return BrokerLogin(listener.protocol, mechanism, user, password)
    raise InvalidValue(f'brokers log in by {mechanism}: {name} needs username="<name>" password="<password>"')
