"""An OAUTHBEARER token for the native client, which reads tokens only from files. The token is in a memory file. This
process renews the token as long as the process lives.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from pybroker.client.client_errors import AuthenticationError, BrokerConnectionError
from pybroker.client.config import ClientConfig
from pybroker.client.connection.oauth import ENDPOINT, Token, TokenSource
from pybroker.client.connection.sasl_login import jaas_options
from pybroker.config.memory_file import MemoryFile

UNKNOWN_LIFE_S = 60.0
"""Refresh interval in seconds of a token whose lifetime the identity provider does not report."""
AGAIN_S = 10.0
"""Seconds after a failed renewal before the next renewal. Each renewal itself retries with shorter pauses."""

log = logging.getLogger(__name__)


class CachedToken:
    """An OAUTHBEARER token in a memory file that a background thread renews."""

    def __init__(self, config: ClientConfig) -> None:
        """Wait for the first token. Raises ClientConfigError if a setting is missing, AuthenticationError if the
        provider refuses, BrokerConnectionError if it cannot be reached.
        """
        line = config["sasl.jaas.config"]
        self._source = TokenSource(config, {} if line is None else jaas_options(line))
        self._file = MemoryFile(b"")
        self._closed = threading.Event()
        first: Future[None] = Future()
        threading.Thread(target=self._keep, args=(first,), name="token", daemon=True).start()
        first.result()

    @property
    def settings(self) -> dict[str, str]:
        """The client settings that point to the file."""
        return {ENDPOINT: Path(self._file.path).as_uri()}

    def close(self) -> None:
        """Stop the renewal. The file remains, because some connections may be about to log in."""
        self._closed.set()

    def _keep(self, first: Future[None]) -> None:
        try:
            token = self._fetch()
        except BaseException as problem:
            first.set_exception(problem)
            return
        first.set_result(None)
        wait = _left(token)
        while not self._closed.wait(wait):
            try:
                wait = _left(self._fetch())
            except (AuthenticationError, BrokerConnectionError) as problem:
                log.warning("%s; using the previous token until it expires", problem)
                wait = AGAIN_S

    def _fetch(self) -> Token:
        token = asyncio.run(self._source.get())
        self._file.replace(token.text.encode())
        return token


def _left(token: Token) -> float:
    """Return the seconds until the renewal."""
    return max(1.0, token.renew_at - time.time()) if token.renew_at else UNKNOWN_LIFE_S
