"""The keys of a listener's identity provider, fetched in threads and refreshed.

While the provider is unreachable, the previous keys stay valid. As long as there is no key at all, no client can log
in.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading

from pybroker.broker.security.oauth.jwks import JwksError, KeySet
from pybroker.config.broker_oauth import OAuthSettings
from pybroker.config.setting_values import InvalidValue
from pybroker.files import read_regular
from pybroker.web_request import ANSWER_BYTES_MAX, WebError, ask

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""Seconds between checks of a key file."""

UNKNOWN_PAUSE_S = 10.0
"""Minimum seconds between two fetches for unknown keys. Clients can cause these fetches, because a token can name any
key."""


class ProviderKeys:
    """The keys of one listener. Runs on the event loop's thread, except for the fetches."""

    def __init__(self, listener: str, settings: OAuthSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._place = f"listener {listener}: keys of {settings.url}"
        self._settings = settings
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Future[None] | None = None
        self._began: float | None = None
        self._failures = 0
        self._marks: tuple[int, int, int] | None = None
        self._stopped = False
        self.keys = KeySet()

    def start(self) -> None:
        """Start the refresh. A key file is read now; raise InvalidValue if it is unusable. An unreachable provider does
        not delay the start.
        """
        path = self._settings.file
        if path is None:
            self._load()
            return
        self._marks = _marks(path)
        try:
            self._take(read_keys(self._settings))
        except JwksError as problem:
            raise InvalidValue(f"{self._place}: {problem}") from None
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Stop fetching. A thread that waits for the provider may end later."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def newer(self) -> asyncio.Future[None] | None:
        """Start to fetch keys, because a token has an unknown key. Return a future to wait for, or None if the last
        fetch is too recent.
        """
        due = self._began is None or self._loop.time() - self._began >= UNKNOWN_PAUSE_S
        if self._loading is None and due and not self._stopped:
            self._load()
        return self._loading

    def _load(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._began = self._loop.time()
        loading = self._loading = self._loop.create_future()

        def run() -> None:
            try:
                found: KeySet | JwksError = read_keys(self._settings)
            except JwksError as problem:
                found = problem
            try:
                self._loop.call_soon_threadsafe(self._loaded, loading, found)
            except RuntimeError:
                assert self._stopped, "the loop ends after the broker"

        # Do not use a pool thread, because the process must be able to exit without waiting for the provider.
        threading.Thread(target=run, name="oauth-keys", daemon=True).start()

    def _loaded(self, loading: asyncio.Future[None], found: KeySet | JwksError) -> None:
        self._loading = None
        loading.set_result(None)
        if self._stopped:
            return
        settings = self._settings
        if isinstance(found, KeySet):
            self._take(found)
            pause_ms = settings.refresh_ms
        else:
            # Warn once per outage.
            level = logging.WARNING if self._failures == 0 else logging.DEBUG
            kept = "the earlier keys stay in use" if len(self.keys) else "clients cannot log in with a token"
            log.log(level, "cannot load token keys, retrying: %s: %s; %s", self._place, found, kept)
            pause_ms = min(settings.retry_ms << min(self._failures, 32), settings.retry_max_ms)
            self._failures += 1
        if settings.file is None:
            self._timer = self._loop.call_later(pause_ms / 1000, self._load)
        else:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _take(self, found: KeySet) -> None:
        if self._failures or len(found) != len(self.keys):
            log.info("loaded token keys: %s count=%d", self._place, len(found))
        if found.left_out != self.keys.left_out:
            for left_out in found.left_out[:10]:
                log.warning("skipped a token key: %s: key %s", self._place, left_out)
        self._failures = 0
        self.keys = found

    def _look(self) -> None:
        path = self._settings.file
        assert path is not None
        marks = _marks(path)
        if marks != self._marks:
            self._marks = marks
            self._load()
        else:
            self._timer = self._loop.call_later(LOOK_S, self._look)


def _marks(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_keys(settings: OAuthSettings) -> KeySet:
    """Read and parse the key set, from a file or from a URL; blocks. Raise JwksError if this fails; its text never
    contains the data.
    """
    path = settings.file
    return KeySet.parse(_fetched(settings) if path is None else _read(path))


def _read(path: str) -> bytes:
    try:
        content = read_regular(path, ANSWER_BYTES_MAX)
    except OSError as problem:
        raise JwksError(f"cannot read the file: {problem.strerror}") from None
    if len(content) > ANSWER_BYTES_MAX:
        raise JwksError(f"it is longer than {ANSWER_BYTES_MAX} bytes")
    return content


def _fetched(settings: OAuthSettings) -> bytes:
    try:
        return ask(settings.url, {"Accept": "application/jwk-set+json, application/json"}, tls=_context(settings))
    except WebError as problem:
        raise JwksError(str(problem)) from None


def _context(settings: OAuthSettings) -> ssl.SSLContext | None:
    store = settings.truststore
    if store is None:
        return None
    try:
        return ssl.create_default_context(cadata=store.trusted().decode())
    except (InvalidValue, ValueError, ssl.SSLError) as problem:
        raise JwksError(str(problem)) from None
