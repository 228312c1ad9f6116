"""Who asks, and in which version: what a handler gets beside the decoded message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pybroker.broker.requests.turns import Turns
from pybroker.native import CommitRight, CommitTopic, ShardCommits, StandingAnswer
from pybroker.protocol.caller import Caller


class RequestContext(msgspec.Struct, frozen=True):
    """Taken from the connection and the request's header."""

    api_key: int
    api_version: int
    client_id: str | None
    principal: str
    """"User:ANONYMOUS" without authentication."""
    listener: str
    client_host: str
    connection_id: int
    sasl_authenticated: bool = False
    """The client has proven by SASL who it is; false on listeners without SASL."""
    by_token: bool = False
    """It has done so by a delegation token (KIP-48)."""
    client_port: int = 0
    client_software: tuple[str, str] = ("", "")
    """Name and version, in the client's own words (KIP-511); empty if it has said none."""
    turns: Turns = msgspec.field(default_factory=Turns)
    """For handlers with work on many elements."""
    refusals: set[tuple[int, int]] = msgspec.field(default_factory=set)
    """Operations and types of resources that the log has a line of."""

    @property
    def caller(self) -> Caller:
        """Who asks, for those who decide."""
        return Caller(self.principal, self.client_host, self.client_id or "")

    def caller_refused_since(self, version: int) -> Caller:
        """The same, for those who count what it has done: from this version of the request on it can be refused."""
        return msgspec.structs.replace(self.caller, slowed_only=self.api_version < version)


class Authenticated(msgspec.Struct, frozen=True):
    """In place of a response: it is sent, and the connection belongs to this principal from then on."""

    response: object
    principal: str
    by_token: bool
    session_lifetime_ms: int | None
    """The client must authenticate again within this time (KIP-368); None: never."""


class Standing(msgspec.Struct, frozen=True):
    """In place of a response: it is sent, and data threads repeat it while the answer stands."""

    response: object
    group_id: str
    """Whoever is told it must be permitted to READ this group."""
    stands: Callable[[StandingAnswer], None]
    """Told of the answer, if it is one that is repeated: whoever changes what it depends on takes it back before."""


class CommitGrant(msgspec.Struct, frozen=True):
    """What leaves a member's commits to data threads."""

    shard: ShardCommits
    topics: Sequence[CommitTopic]
    """Commits for other topics come to the coordinator, and so do those with more metadata than this."""
    metadata_bytes_max: int
    timeout_ms: int
    """What is not on disk by then is answered COORDINATOR_NOT_AVAILABLE."""
    before: CommitRight | None
    """What the member has by now."""
    stands: Callable[[CommitRight], None]
    """Told of the right, if one is given: whoever changes what it depends on takes it back before."""


class StandingCommits(msgspec.Struct, frozen=True):
    """In place of the response to an OffsetCommit: it is sent, and data threads take the member's next commits."""

    response: object
    grant: CommitGrant


class LastResponse(msgspec.Struct, frozen=True):
    """In place of a response: it is sent, then the connection is closed."""

    response: object


Handler = Callable[[RequestContext, Any], Any]
"""Gives the response message, a coroutine that does, or a `Later` that is given it. Raising KafkaError answers its code
in every slot of the response.
"""
