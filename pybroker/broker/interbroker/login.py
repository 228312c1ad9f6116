"""This broker's login to other brokers, as a client's settings; with OAUTHBEARER it fetches the token here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pybroker.client.client_errors import AuthenticationError, BrokerConnectionError
from pybroker.client.config import ADMIN, ClientConfig
from pybroker.config import BrokerConfig
from pybroker.config.broker_login import broker_login
from pybroker.config.values import ConfigError, InvalidValue
from pybroker.errors import StartError


async def client_settings(config: BrokerConfig) -> Mapping[str, str]:
    """Return the settings for every connection to another broker, and keep a token fresh. Raises StartError if there is
    no token."""
    login = broker_login(config)
    settings = login.client_settings()
    if not login.token:
        return settings
    # Import the HTTP code only where it is needed.
    from pybroker.client.connection.token_file import CachedToken

    given = {"security.protocol": login.protocol, "sasl.mechanism": login.mechanism, **login.token}
    try:
        kept = await asyncio.to_thread(CachedToken, ClientConfig(ADMIN, given))
    except (ConfigError, InvalidValue, AuthenticationError, BrokerConnectionError) as problem:
        raise StartError(f"no token to log in to other brokers with: {problem}") from None
    return {**{name: text for name, text in settings.items() if name not in login.token}, **kept.settings}
