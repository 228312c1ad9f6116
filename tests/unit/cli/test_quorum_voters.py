from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import pybroker.client
from pybroker.cli.cluster import quorum_voters
from pybroker.native import Uuid


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


class FakeAdmin:
    def __init__(self, config: object) -> None:
        pass

    async def __aenter__(self) -> FakeAdmin:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def describe_metadata_quorum(self) -> Any:
        voter = SimpleNamespace(
            replica_id=1,
            directory_id=Uuid.ZERO,
            log_end_offset=7,
            last_fetch_timestamp=1_700_000_000_000,
            last_caught_up_timestamp=None,
            addresses=(),
        )
        return SimpleNamespace(leader_id=1, leader_epoch=2, high_watermark=7, voters=(voter,), observers=())


@pytest.mark.usefixtures("tokyo")
def test_status_shows_times_in_utc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pybroker.client, "AdminClient", FakeAdmin)
    target: Any = SimpleNamespace(json=False, client_config=dict)
    asyncio.run(quorum_voters._status(target))
    assert "2023-11-14 22:13:20 UTC" in capsys.readouterr().out
