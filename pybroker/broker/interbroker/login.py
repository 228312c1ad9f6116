"""What a broker logs in to others with, as a client's settings; with OAUTHBEARER its token is fetched here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pybroker.client.config import ADMIN, ClientConfig
from pybroker.client.errors import AuthenticationError, BrokerConnectionError
from pybroker.config import BrokerConfig
from pybroker.config.broker_login import broker_login
from pybroker.config.values import ConfigError, InvalidValue
from pybroker.errors import StartError


async def client_settings(config: BrokerConfig) -> Mapping[str, str]:
    """For every connection to another broker. A token is kept fresh from now on. Raises StartError where there is
    none."""
    login = broker_login(config)
    settings = login.client_settings()
    if not login.token:
        return settings
    # What speaks HTTP is imported where it is needed.
    from pybroker.client.connection.kept_token import KeptToken

    given = {"security.protocol": login.protocol, "sasl.mechanism": login.mechanism, **login.token}
    try:
        kept = await asyncio.to_thread(KeptToken, ClientConfig(ADMIN, given))
    except (ConfigError, InvalidValue, AuthenticationError, BrokerConnectionError) as problem:
        raise StartError(f"no token to log in to other brokers with: {problem}") from None
    return {**{name: text for name, text in settings.items() if name not in login.token}, **kept.settings}
