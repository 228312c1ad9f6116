"""How many voters of the metadata quorum answer: a broker that stops must not wait for a majority that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pybroker.native_quorum import QuorumReplicaStatus, QuorumStatus

ANSWER_S_MAX = 0.7
"""Limit of waiting for answers of voters."""


def majority_of(status: QuorumStatus) -> int:
    """Return how many voters are a majority."""
    return len(status.voters) // 2 + 1


async def answering_voters(
    status: QuorumStatus, broker_id: int, answers: Callable[[QuorumReplicaStatus], Awaitable[bool]]
) -> int:
    """Return how many voters besides this broker answer in time. The wait ends when they are a majority."""
    waiting = {asyncio.ensure_future(answers(voter)) for voter in status.voters if voter.node_id != broker_id}
    end, count = asyncio.get_running_loop().time() + ANSWER_S_MAX, 0
    try:
        while waiting and count < majority_of(status):
            left = end - asyncio.get_running_loop().time()
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            count += sum(answer.result() for answer in done)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return count
