"""The context of a request: the client and the API version. A handler gets it together with the decoded message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.native import CachedResponse, CommitLease, CommitTopic, ShardCommits
from pybroker.protocol.caller import Caller


class RequestContext(msgspec.Struct, frozen=True):
    """The connection and the request header."""

    api_key: int
    api_version: int
    client_id: str | None
    principal: str
    """User:ANONYMOUS without authentication."""
    listener: str
    client_host: str
    connection_id: int
    sasl_authenticated: bool = False
    """Whether the client has authenticated with SASL; false on listeners without SASL."""
    by_token: bool = False
    """Whether the client has authenticated with a delegation token (KIP-48)."""
    client_port: int = 0
    client_software: tuple[str, str] = ("", "")
    """Client software name and version (KIP-511); empty if the client sent none."""
    turns: LoopShares = msgspec.field(default_factory=LoopShares)
    """Lets other requests run during a loop over many elements."""
    refusals: set[tuple[int, int]] = msgspec.field(default_factory=set)
    """(operation, resource type) pairs for which this request has already logged a denial."""

    @property
    def caller(self) -> Caller:
        """Return the client for requests to the controller."""
        return Caller(self.principal, self.client_host, self.client_id or "")

    def caller_refused_since(self, version: int) -> Caller:
        """Return the client for the mutation quota. Only from this API version on, the controller may refuse the
        request because of the quota; older clients are only throttled.
        """
        return msgspec.structs.replace(self.caller, slowed_only=self.api_version < version)


class LoginResponse(msgspec.Struct, frozen=True):
    """A response that authenticates the connection. Later requests on the connection belong to this principal."""

    response: object
    principal: str
    by_token: bool
    session_lifetime_ms: int | None
    """Milliseconds within which the client must authenticate again (KIP-368); None: never."""


class CacheableResponse(msgspec.Struct, frozen=True):
    """A response that data threads repeat until it is invalidated."""

    response: object
    group_id: str
    """To get the response, a client must have READ permission for this group."""
    on_cached: Callable[[CachedResponse], None]
    """Called with the cached response. The coordinator keeps it, to invalidate it before it changes the group."""


class CommitGrant(msgspec.Struct, frozen=True):
    """A lease that delegates a member's offset commits to data threads."""

    shard: ShardCommits
    topics: Sequence[CommitTopic]
    """The topics of the lease. A commit for other topics, or with more metadata than this, goes to the coordinator."""
    metadata_bytes_max: int
    timeout_ms: int
    """Milliseconds after which a commit that is not durable gets COORDINATOR_NOT_AVAILABLE."""
    before: CommitLease | None
    """The member's current lease."""
    on_granted: Callable[[CommitLease], None]
    """Called with the new lease. The coordinator keeps it, to revoke it before it changes the group."""


class DelegatedCommitResponse(msgspec.Struct, frozen=True):
    """A response to OffsetCommit with a lease. Data threads then handle the member's next commits."""

    response: object
    grant: CommitGrant


class LastResponse(msgspec.Struct, frozen=True):
    """A response after which the broker closes the connection."""

    response: object


Handler = Callable[[RequestContext, Any], Any]
"""Function that handles a request. It returns the response message, a coroutine for it, or a `Later`. If it raises
KafkaError, every error field of the response gets the error's code.
"""
