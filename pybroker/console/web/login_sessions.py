"""Login sessions. They are only in memory, so a restart of the console logs all people out."""

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
"""Lifetime of a session in seconds, even if it is in use."""
TOKEN_BYTES = 32
SCHEMAS_MAX = 16


@dataclass
class Session:
    """A person's state between requests. clients: the person's own clients; None without login."""

    token: str
    user: str | None
    clients: Clients | None
    begun: float
    seen: float
    schemas: OrderedDict[str, tuple[str, Any]] = field(default_factory=OrderedDict)
    """Topic → Avro schema that the person pasted, as text and parsed."""

    def keep_schema(self, topic: str, schema: tuple[str, Any] | None) -> None:
        """Store a topic's schema; None removes it. If there are too many schemas, the oldest is dropped."""
        self.schemas.pop(topic, None)
        if schema is not None:
            self.schemas[topic] = schema
            while len(self.schemas) > SCHEMAS_MAX:
                self.schemas.popitem(last=False)


class Sessions:
    """Sessions by cookie, which is a random number that cannot be guessed. At the limit, the session that has been idle
    for the longest time ends."""

    def __init__(self, idle_timeout_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_timeout_s
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def new_token(self) -> str:
        """Return a new random token for a cookie."""
        return secrets.token_urlsafe(TOKEN_BYTES)

    def csrf(self, token: str) -> str:
        """Return the token for the person's forms. Only this process can create it, because it depends on a secret. It
        is valid only together with this cookie."""
        return hmac.new(self._secret, token.encode(), hashlib.sha256).hexdigest()

    def csrf_is_right(self, token: str, token_sent: str) -> bool:
        """Return whether `token_sent` is the token for the cookie. The comparison takes constant time."""
        return hmac.compare_digest(self.csrf(token).encode(), token_sent.encode("utf-8", "replace"))

    async def find(self, token: str) -> Session | None:
        """Return the session of a cookie, if the session has not ended, and reset its idle time."""
        await self.expire()
        session = self._sessions.get(token)
        if session is not None:
            session.seen = self._now()
            self._sessions.move_to_end(token)
        return session

    def is_there(self, token: str) -> bool:
        """Return whether the session exists, without resetting its idle time."""
        session = self._sessions.get(token)
        return session is not None and self._now() - session.begun <= LIFE_MAX_S

    async def begin(self, token: str, user: str | None, clients: Clients | None) -> Session:
        """Begin a session and return it."""
        await self.expire()
        while len(self._sessions) >= SESSIONS_MAX:
            await self.end(next(iter(self._sessions)))
        now = self._now()
        made = self._sessions[token] = Session(token, user, clients, now, now)
        return made

    async def end(self, token: str) -> None:
        """End the session and close the person's connections."""
        session = self._sessions.pop(token, None)
        if session is not None and session.clients is not None:
            await session.clients.close()

    async def expire(self) -> None:
        """End sessions that have been idle for too long or are too old."""
        now = self._now()
        over = [
            token
            for token, each in self._sessions.items()
            if now - each.seen > self._idle_s or now - each.begun > LIFE_MAX_S
        ]
        for token in over:
            await self.end(token)

    async def close(self) -> None:
        """End all sessions."""
        for token in list(self._sessions):
            await self.end(token)
