"""TLS certificates, keys and trusted certificates of listeners. The files are read again when they change."""

from __future__ import annotations

import asyncio
import logging

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.setting_values import InvalidValue
from pybroker.config.stores import Marks
from pybroker.native import ListenerError, ListenerTls, NativeListeners

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""Seconds between checks of the keystore files."""


def listener_tls(settings: TlsSettings) -> ListenerTls:
    """Read the files of a listener's TLS settings.

    Raise InvalidValue if a file is unusable. Its text names the setting and the file and never contains key material.
    """
    key = settings.keystore.identity(settings.key_password)
    asks = settings.client_auth != "none"
    return ListenerTls(
        certificates=settings.chain.trusted() if settings.chain else key,
        key=key,
        trusted=settings.truststore.trusted() if asks and settings.truststore else b"",
        revoked=settings.revoked.lists() if asks and settings.revoked else None,
        client_auth=settings.client_auth,
        protocols=settings.protocols,
        cipher_suites=settings.cipher_suites,
        principal_rules=settings.principal_rules,
    )


class Keystores:
    """Loads the files of each TLS listener, and loads them again when a file or a setting changes (KIP-226).

    New connections use the new files; open connections keep theirs.
    """

    def __init__(self, listeners: NativeListeners, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._listeners = listeners
        self._config = config
        self._loop = loop
        self._settings: dict[str, TlsSettings] = {}
        for listener in config.listeners:
            if listener.protocol.endswith("SSL"):
                self._settings[listener.name] = config.listener_tls(listener.name)
        self._seen: dict[str, _Marks] = {}
        self._refused: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Load the files before the listeners are opened. Raise InvalidValue, which names the listener, if a file is
        unusable.
        """
        for name, settings in self._settings.items():
            self._seen[name] = _marks(settings)
            self._secure(name, _read(name, settings))
        if self._settings:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Stop checking the files."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _secure(self, name: str, tls: ListenerTls) -> None:
        try:
            self._listeners.secure(name, tls)
        except ListenerError as problem:
            raise InvalidValue(f"listener {name}: {problem.message}") from None

    def _look(self) -> None:
        self._looking = self._loop.create_task(self._look_again())

    async def _look_again(self) -> None:
        # Use a thread, because the event loop must not block if the file system does not respond.
        run = self._loop.run_in_executor
        for name in self._settings:
            try:
                settings = self._config.listener_tls(name)
                marks = await run(None, _marks, settings)
                if (settings, marks) == (self._settings[name], self._seen[name]):
                    continue
                self._settings[name], self._seen[name] = settings, marks
                self._secure(name, await run(None, _read, name, settings))
            except InvalidValue as problem:
                self._log_problem(name, str(problem))
            else:
                self._refused.pop(name, None)
                log.info("reloaded the files of a listener's ssl.* settings for new connections listener=%s", name)
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _log_problem(self, name: str, problem: str) -> None:
        """Log a problem once: a wrong setting persists until an operator changes it."""
        if self._refused.get(name) != problem:
            log.error(
                "cannot reload the files of a listener's ssl.* settings; the earlier ones stay in use: %s", problem
            )
            self._refused[name] = problem


def _read(name: str, settings: TlsSettings) -> ListenerTls:
    try:
        return listener_tls(settings)
    except InvalidValue as problem:
        raise InvalidValue(f"listener {name}: {problem}") from None


_Marks = tuple[Marks, ...]


def _marks(settings: TlsSettings) -> _Marks:
    """Return marks that change when the files change; empty if there are no files."""
    return tuple(store.marks() for store in settings.files)
