"""Tokens of an identity provider for the native client, which reads tokens from files: each Python process, on the
driver and on executors, asks the provider itself with the client's name and secret, as Kafka's clients do in Spark,
once for all its tasks, and again before a token ends. What is pickled is the options, never a token: tasks that start
late, or again, need a new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pybroker.spark.errors import OptionError, TokenError

if TYPE_CHECKING:
    from pybroker.client.connection.kept_token import KeptToken

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
OF_PROVIDER = (
    "https.ca.location",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.scope",
)
"""Settings of which the native client knows nothing."""

_kept: dict[tuple[object, ...], KeptToken] = {}
_lock = threading.Lock()


def with_token(settings: Mapping[str, str]) -> dict[str, str]:
    """What the native client is given. Waits for a token where the provider has not been asked in this process. Raises
    OptionError, TokenError."""
    found = {name: text for name, text in settings.items() if name not in OF_PROVIDER}
    if not by_url(settings):
        return found
    # What speaks HTTP is imported where it is needed.
    from pybroker.client.config import ADMIN, ClientConfig
    from pybroker.client.connection.kept_token import KeptToken
    from pybroker.client.errors import AuthenticationError, BrokerConnectionError
    from pybroker.config.values import ConfigError

    names = ("sasl.mechanism", "sasl.jaas.config", ENDPOINT, *OF_PROVIDER)
    asked = {name: settings[name] for name in names if name in settings}
    with _lock:
        # A process that was forked has the file, and nobody who renews what is in it.
        key = (os.getpid(), *asked.items())
        try:
            if key not in _kept:
                _kept[key] = KeptToken(ClientConfig(ADMIN, asked))
        except ConfigError as problem:
            raise OptionError(f"kafka.{problem}") from None
        except AuthenticationError as problem:
            raise TokenError(f"kafka.{problem.message}") from None
        except BrokerConnectionError as problem:
            raise TokenError(f"kafka.{problem}") from None
        return {**found, **_kept[key].settings}


def by_url(settings: Mapping[str, str]) -> bool:
    """Whether an identity provider is asked."""
    if settings.get("sasl.mechanism") != "OAUTHBEARER" or not settings.get("security.protocol", "").startswith("SASL_"):
        return False
    return settings.get(ENDPOINT, "").startswith(("https:", "http:"))
