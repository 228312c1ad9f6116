"""Connection errors of a client: logged, and kept as the cause in timeout messages."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

log = logging.getLogger(__name__)

_AGAIN_S = 30.0
"""Seconds between two warnings about the same unreachable broker."""


@dataclass(slots=True)
class _Outage:
    since: float
    logged_at: float
    last: float
    error: Exception


class ConnectionErrors:
    """Unreachable brokers by address. Logs a WARN with address and cause when a broker becomes unreachable, and again
    at intervals. Logs an INFO when the broker responds again.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._away: dict[str, _Outage] = {}

    def report(self, address: str, error: Exception) -> None:
        """Record that a broker is unreachable or did not respond in time."""
        now = asyncio.get_running_loop().time()
        away = self._away.get(address)
        if away is None:
            self._away[address] = _Outage(now, now, now, error)
            log.warning("[%s] %s; retrying", self._client_id, error)
            return
        away.error, away.last = error, now
        if now - away.logged_at >= _AGAIN_S:
            away.logged_at = now
            log.warning("[%s] %s; failing for %.0f s so far", self._client_id, error, now - away.since)

    def clear(self, address: str) -> None:
        """Record that a broker responds again."""
        away = self._away.pop(address, None)
        if away is not None:
            lasted = asyncio.get_running_loop().time() - away.since
            log.info("[%s] %s responds again after %.1f s", self._client_id, address, lasted)

    @property
    def cause(self) -> Exception | None:
        """The latest error of a broker that is still unreachable, or None."""
        return max(self._away.values(), key=lambda each: each.last).error if self._away else None
