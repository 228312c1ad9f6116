"""OAUTHBEARER tokens for the native client, which reads tokens from files.

Each Python process, on the driver and on executors, gets one token for all its tasks from the identity provider, with
the client's id and secret. The process renews the token before it expires. Spark pickles the options but never a token,
because a task that starts late, or again, needs a fresh token.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pybroker.spark.source_errors import OptionError, TokenError

if TYPE_CHECKING:
    from pybroker.client.connection.token_file import CachedToken

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
"""Settings for the identity provider, which the native client does not know."""

_kept: dict[tuple[object, ...], CachedToken] = {}
_lock = threading.Lock()


def with_token(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the native client. Wait for this process's first token. Raises OptionError, TokenError.
    """
    found = {name: text for name, text in settings.items() if name not in OF_PROVIDER}
    if not by_url(settings):
        return found
    # Imported here, because the module imports an HTTP client.
    from pybroker.client.client_errors import AuthenticationError, BrokerConnectionError
    from pybroker.client.config import ADMIN, ClientConfig
    from pybroker.client.connection.token_file import CachedToken
    from pybroker.config.setting_values import ConfigError

    names = ("sasl.mechanism", "sasl.jaas.config", ENDPOINT, *OF_PROVIDER)
    asked = {name: settings[name] for name in names if name in settings}
    with _lock:
        # Include the process id. A forked process has the file with the token, but not the thread that renews it.
        key = (os.getpid(), *asked.items())
        try:
            if key not in _kept:
                _kept[key] = CachedToken(ClientConfig(ADMIN, asked))
        except ConfigError as problem:
            raise OptionError(f"kafka.{problem}") from None
        except AuthenticationError as problem:
            raise TokenError(f"kafka.{problem.message}") from None
        except BrokerConnectionError as problem:
            raise TokenError(f"kafka.{problem}") from None
        return {**found, **_kept[key].settings}


def by_url(settings: Mapping[str, str]) -> bool:
    """Return whether the token comes from an identity provider."""
    if settings.get("sasl.mechanism") != "OAUTHBEARER" or not settings.get("security.protocol", "").startswith("SASL_"):
        return False
    return settings.get(ENDPOINT, "").startswith(("https:", "http:"))
