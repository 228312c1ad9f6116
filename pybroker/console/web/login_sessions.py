"""Who is logged in, in memory only: a restart of the console logs everybody out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pybroker.console.web.user_clients import Clients

SESSIONS_MAX = 200
LIFE_MAX_S = 12 * 3600.0
"""However busy somebody is."""
TOKEN_BYTES = 32
SCHEMAS_MAX = 16


@dataclass
class Session:
    """What is kept of a person between requests. clients: their own; None where nobody logs in."""

    token: str
    user: str | None
    clients: Clients | None
    begun: float
    seen: float
    schemas: OrderedDict[str, tuple[str, Any]] = field(default_factory=OrderedDict)
    """Topic → its Avro schema, as text and parsed, pasted by this person."""

    def keep_schema(self, topic: str, schema: tuple[str, Any] | None) -> None:
        """None takes it away. The oldest goes when there are too many."""
        self.schemas.pop(topic, None)
        if schema is not None:
            self.schemas[topic] = schema
            while len(self.schemas) > SCHEMAS_MAX:
                self.schemas.popitem(last=False)


class Sessions:
    """Sessions by their cookie: a random number that nobody can guess. Bounded: who was idle longest goes first."""

    def __init__(self, idle_timeout_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_timeout_s
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def new_token(self) -> str:
        """For a cookie."""
        return secrets.token_urlsafe(TOKEN_BYTES)

    def csrf(self, token: str) -> str:
        """What each form of a person carries: it cannot be made without our secret, nor used with another cookie."""
        return hmac.new(self._secret, token.encode(), hashlib.sha256).hexdigest()

    def csrf_is_right(self, token: str, given: str) -> bool:
        """Compares in constant time."""
        return hmac.compare_digest(self.csrf(token).encode(), given.encode("utf-8", "replace"))

    async def find(self, token: str) -> Session | None:
        """The session of a cookie, if it has not ended; counts as a sign of life."""
        await self.expire()
        session = self._sessions.get(token)
        if session is not None:
            session.seen = self._now()
            self._sessions.move_to_end(token)
        return session

    def is_there(self, token: str) -> bool:
        """Whether the session has not ended; no sign of life."""
        session = self._sessions.get(token)
        return session is not None and self._now() - session.begun <= LIFE_MAX_S

    async def begin(self, token: str, user: str | None, clients: Clients | None) -> Session:
        """A new session."""
        await self.expire()
        while len(self._sessions) >= SESSIONS_MAX:
            await self.end(next(iter(self._sessions)))
        now = self._now()
        made = self._sessions[token] = Session(token, user, clients, now, now)
        return made

    async def end(self, token: str) -> None:
        """Closes the person's connections."""
        session = self._sessions.pop(token, None)
        if session is not None and session.clients is not None:
            await session.clients.close()

    async def expire(self) -> None:
        """Ends those that were idle, or are old."""
        now = self._now()
        over = [
            token
            for token, each in self._sessions.items()
            if now - each.seen > self._idle_s or now - each.begun > LIFE_MAX_S
        ]
        for token in over:
            await self.end(token)

    async def close(self) -> None:
        """Ends all."""
        for token in list(self._sessions):
            await self.end(token)
