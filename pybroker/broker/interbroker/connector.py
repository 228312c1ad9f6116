"""The connector to other brokers: address and login for their inter-broker listener."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import Any

from pybroker.broker.interbroker.interbroker_connection import InterBrokerConnection
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.znodes import Endpoint
from pybroker.client.client_errors import AuthenticationError, BrokerConnectionError
from pybroker.client.config import ADMIN, ClientConfig
from pybroker.config import BrokerConfig
from pybroker.config.broker_login import broker_login
from pybroker.config.setting_values import ConfigError, InvalidValue
from pybroker.errors import StartError


async def client_settings(config: BrokerConfig) -> Mapping[str, str]:
    """Return the settings for every connection to another broker. If they contain a token, it is renewed before it
    expires. Raises StartError if no token can be obtained.
    """
    login = broker_login(config)
    settings = login.client_settings()
    if not login.token:
        return settings
    # Import the HTTP code only where it is needed.
    from pybroker.client.connection.token_file import CachedToken

    with_token = {"security.protocol": login.protocol, "sasl.mechanism": login.mechanism, **login.token}
    try:
        kept = await asyncio.to_thread(CachedToken, ClientConfig(ADMIN, with_token))
    except (ConfigError, InvalidValue, AuthenticationError, BrokerConnectionError) as problem:
        raise StartError(f"cannot get a token to log in to other brokers: {problem}") from None
    return {**{name: text for name, text in settings.items() if name not in login.token}, **kept.settings}


log = logging.getLogger(__name__)


class Connector:
    """Connector to the inter-broker listener."""

    def __init__(self, broker_id: int, listener: str, login: Mapping[str, str]) -> None:
        """`login` holds a client's settings of protocol, user and password."""
        self._broker_id = broker_id
        self._listener = listener
        self._login = login
        self._logged: dict[int, str] = {}

    def endpoint(self, broker: BrokerImage) -> Endpoint | None:
        """Return the inter-broker listener of a broker."""
        return next((endpoint for endpoint in broker.endpoints if endpoint.listener == self._listener), None)

    async def __call__(self, broker: BrokerImage) -> InterBrokerConnection:
        """Open a connection. Raises the exceptions in `UNREACHABLE`."""
        endpoint = self.endpoint(broker)
        if endpoint is None:
            raise BrokerConnectionError(
                f"broker {broker.broker_id} has no listener {self._listener}; set the same "
                "inter.broker.listener.name on every broker"
            )
        settings: dict[str, Any] = {
            "client.id": f"broker-{self._broker_id}",
            **self._login,
        }
        try:
            opened = await InterBrokerConnection.open(endpoint.host, endpoint.port, ClientConfig(ADMIN, settings))
        except (BrokerConnectionError, AuthenticationError) as problem:
            self._refused(broker.broker_id, problem)
            raise
        self._logged.pop(broker.broker_id, None)
        return opened

    def _refused(self, broker_id: int, problem: Exception) -> None:
        """Log a rejected certificate or login once: the broker retries continually, and only an operator can repair it.
        Do not log that a broker is down.
        """
        untrusted = isinstance(problem.__cause__, ssl.SSLCertVerificationError)
        if (untrusted or isinstance(problem, AuthenticationError)) and self._logged.get(broker_id) != str(problem):
            log.warning("cannot connect to a broker broker=%d: %s", broker_id, problem)
            self._logged[broker_id] = str(problem)
