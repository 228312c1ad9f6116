"""What keeps a client from its brokers: said in the log, and kept for the texts of time-outs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

log = logging.getLogger(__name__)

_AGAIN_S = 30.0
"""A broker that stays away is mentioned so often."""


@dataclass(slots=True)
class _Away:
    since: float
    told: float
    last: float
    error: Exception


class Trouble:
    """Brokers that do not answer, by address. A WARN names the address and the cause when it begins and, more seldom,
    while it lasts; an INFO says that it is over.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._away: dict[str, _Away] = {}

    def began(self, address: str, error: Exception) -> None:
        """A broker cannot be reached, or has not answered in time."""
        now = asyncio.get_running_loop().time()
        away = self._away.get(address)
        if away is None:
            self._away[address] = _Away(now, now, now, error)
            log.warning("[%s] %s; trying again", self._client_id, error)
            return
        away.error, away.last = error, now
        if now - away.told >= _AGAIN_S:
            away.told = now
            log.warning("[%s] %s; for %.0f s so far", self._client_id, error, now - away.since)

    def is_over(self, address: str) -> None:
        """It answers."""
        away = self._away.pop(address, None)
        if away is not None:
            lasted = asyncio.get_running_loop().time() - away.since
            log.info("[%s] %s answers again after %.1f s", self._client_id, address, lasted)

    @property
    def cause(self) -> Exception | None:
        """The latest trouble, while it lasts."""
        return max(self._away.values(), key=lambda each: each.last).error if self._away else None
