"""The listeners with OAUTHBEARER. The library that checks tokens is an optional dependency, imported only for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pybroker.broker.clock import Clock
from pybroker.config import BrokerConfig
from pybroker.config.setting_values import InvalidValue
from pybroker.version import packages_of

if TYPE_CHECKING:
    from pybroker.broker.security.oauth.provider_keys import ProviderKeys
    from pybroker.broker.security.sasl_mechanisms import Conversation
    from pybroker.config.broker_oauth import OAuthSettings


class OAuthListeners:
    """The OAUTHBEARER listeners of one broker."""

    def __init__(self, config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._settings: dict[str, OAuthSettings] = {}
        for listener in config.listeners:
            settings = config.listener_oauth(listener.name) if listener.protocol.startswith("SASL_") else None
            if settings is not None:
                self._settings[listener.name] = settings
        self._keys: dict[str, ProviderKeys] = {}

    def start(self) -> None:
        """Start fetching keys, before the listeners are opened. Raise InvalidValue if a setting or a key file is
        unusable.
        """
        if not self._settings:
            return
        try:
            from pybroker.broker.security.oauth.provider_keys import ProviderKeys
        except ModuleNotFoundError as missing:
            raise InvalidValue(
                f"OAUTHBEARER needs the package {missing.name}: pip install {packages_of('oauth')}, or take "
                "OAUTHBEARER out of sasl.enabled.mechanisms"
            ) from None
        for name, settings in self._settings.items():
            self._keys[name] = ProviderKeys(name, settings, self._loop)
            self._keys[name].start()

    def stop(self) -> None:
        """Stop fetching keys."""
        for keys in self._keys.values():
            keys.stop()

    def conversation(self, listener: str) -> Conversation:
        """Return a new conversation for a client of a listener with OAUTHBEARER."""
        from pybroker.broker.security.oauth.bearer_token import check
        from pybroker.broker.security.oauth.oauth_conversation import OAuthConversation

        keys, settings = self._keys[listener], self._settings[listener]
        return OAuthConversation(keys, lambda token: check(token, keys.keys, settings, self._clock.wall_ms()))
