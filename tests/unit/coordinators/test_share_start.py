"""The start offset of a share group in a partition, and the end offset from which its lag is computed (KIP-207)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.coordinators.share_partition.ends import PartitionEnds
from pybroker.broker.coordinators.share_partition.start import first_offset
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import RETRIABLE, ErrorCode

TOPIC = Uuid.random()


def log_with(*, lags: bool) -> Any:
    """Return the log of a leader with high watermark 5, whose epoch may begin above that."""
    ends = SimpleNamespace(log_start_offset=2, high_watermark=5, last_stable_offset=4, lags_epoch_start=lags)
    return SimpleNamespace(offsets=lambda *_: ends, offset_for_timestamp=lambda *_: -1)


async def start_of(reset: str, *, lags: bool) -> int:
    context = SimpleNamespace(
        clock=SimpleNamespace(wall_ms=lambda: 10_000_000),
        loop=asyncio.get_running_loop(),
        log=log_with(lags=lags),
        settings=SimpleNamespace(auto_offset_reset=lambda _: reset),
    )
    return await first_offset(context, Key("g", TOPIC, 0), committed=True)


@pytest.mark.parametrize("reset", ["latest", "by_duration:PT1S"])
async def test_a_group_does_not_begin_at_an_end_that_the_leader_does_not_know(reset: str) -> None:
    assert await start_of(reset, lags=False) == 4
    with pytest.raises(KafkaError) as refused:
        await start_of(reset, lags=True)
    assert refused.value.code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert refused.value.code in RETRIABLE
    assert await start_of("earliest", lags=True) == 2


@pytest.mark.parametrize("lags", [True, False])
async def test_lag_has_no_end_while_the_leader_does_not_know_it(lags: bool) -> None:
    topics = SimpleNamespace(leader=lambda *_: (1, 3))
    ends = PartitionEnds(1, topics, log_with(lags=lags), None)
    assert await ends.end(TOPIC, 0) == (None if lags else 5)
