"""Members of a classic group that send raw requests: hundreds of them fit into one process, and the test sees every
response."""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.requests import commit, join

PROTOCOL = "range"
SESSION_TIMEOUT_MS = REBALANCE_TIMEOUT_MS = 120_000
"""Long enough that a slow machine does not cause a member to be removed."""


class Line:
    """One connection. It sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._sent = 0

    @classmethod
    async def open(cls, port: int) -> Line:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def call(self, request: Any, version: int) -> Any:
        """Return the response to a request."""
        self._sent += 1
        frame = native.encode_request(request, version, self._sent, "raw")
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        key, _ = struct.unpack_from(">hh", frame)
        _, answer = native.decode_response(key, version, await self._reader.readexactly(length))
        return answer


@dataclass
class RawMember:
    """One member: `join` brings it to an assignment, then it commits, heartbeats, leaves."""

    line: Line
    group: str
    topic: str
    partitions: int
    member_id: str = ""
    generation: int = -1
    owned: list[int] = field(default_factory=list)

    async def join(self) -> None:
        """Rejoin until a generation with this member has formed and it has its assignment."""
        while True:
            joined = await self.line.call(self._join_request(), 9)
            self.member_id = joined.member_id or self.member_id
            match joined.error_code:
                case ErrorCode.NONE:
                    if await self._sync(joined):
                        return
                case ErrorCode.MEMBER_ID_REQUIRED | ErrorCode.REBALANCE_IN_PROGRESS:
                    continue
                case ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                case other:
                    raise AssertionError(f"JoinGroup: {ErrorCode(other).name}")

    def _join_request(self) -> m.JoinGroupRequest:
        times = {"session_timeout_ms": SESSION_TIMEOUT_MS, "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS}
        return join(self.group, self.member_id, self.topic, names=(PROTOCOL,), **times)

    async def _sync(self, joined: m.JoinGroupResponse) -> bool:
        ids = [member.member_id for member in joined.members] if joined.leader == joined.member_id else []
        assignments = [
            m.SyncGroupRequest_SyncGroupRequestAssignment(
                member_id=one, assignment=json.dumps(list(range(self.partitions))[at :: len(ids)]).encode()
            )
            for at, one in enumerate(ids)
        ]
        answer = await self.line.call(
            m.SyncGroupRequest(
                group_id=self.group,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=assignments,
            ),
            5,
        )
        if answer.error_code == ErrorCode.NONE:
            self.generation = joined.generation_id
            self.owned = json.loads(answer.assignment)
            return True
        assert answer.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION), answer
        return False

    async def heartbeat(self) -> ErrorCode:
        """NONE, or an error code that asks the member to rejoin."""
        answer = await self.line.call(
            m.HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id), 4
        )
        return ErrorCode(answer.error_code)

    async def commit(self, offsets: dict[int, int]) -> dict[int, ErrorCode]:
        """Commit partition → offset; return the response for each partition."""
        request = commit(self.group, self.topic, offsets, self.generation, self.member_id)
        answer = await self.line.call(request, 8)
        return {one.partition_index: ErrorCode(one.error_code) for one in answer.topics[0].partitions}

    async def leave(self) -> None:
        """Leaves the group; `join` makes it a new member."""
        answer = await self.line.call(
            m.LeaveGroupRequest(
                group_id=self.group, members=[m.LeaveGroupRequest_MemberIdentity(member_id=self.member_id)]
            ),
            5,
        )
        assert answer.error_code == answer.members[0].error_code == ErrorCode.NONE
        self.member_id, self.owned = "", []


async def committed(line: Line, groups: list[str]) -> dict[str, dict[int, int]]:
    """Return group → partition → offset of everything that the groups have committed."""
    answer = await line.call(
        m.OffsetFetchRequest(
            groups=[m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
        ),
        8,
    )
    found: dict[str, dict[int, int]] = {}
    for group in answer.groups:
        assert group.error_code == ErrorCode.NONE, group
        found[group.group_id] = {
            one.partition_index: one.committed_offset for topic in group.topics for one in topic.partitions
        }
    return found
