"""`bootstrap.wait.ms`: clients that start before their broker."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.client import AdminClient, BrokerConnectionError, Consumer, Producer, ShareConsumer
from tests.support.brokers import PybrokerProcess
from tests.support.wire import free_port


async def first_call(kind: type[Any], settings: dict[str, Any]) -> None:
    async with kind(settings) as client:
        await (client.describe_cluster() if kind is AdminClient else client.start())


async def test_clients_wait_for_their_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = PybrokerProcess(tmp_path)
    settings = {"bootstrap.servers": broker.bootstrap, "bootstrap.wait.ms": 120_000, "default.api.timeout.ms": 200}
    kinds: list[type[Any]] = [AdminClient, Producer, Consumer]
    try:
        async with asyncio.TaskGroup() as waiting:
            for kind in kinds:
                waiting.create_task(first_call(kind, settings))
            waiting.create_task(first_call(ShareConsumer, {**settings, "group.id": "g"}))
            while caplog.text.count("retrying") < len(kinds) + 1:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # longer than default.api.timeout.ms
            await asyncio.to_thread(broker.start)
        assert sum(record.levelno >= logging.WARNING for record in caplog.records) == len(kinds) + 1
    finally:
        broker.kill()


@pytest.mark.parametrize(("wait_ms", "least_s", "most_s"), [(0, 0.0, 10.0), (1_000, 0.9, 20.0)])
async def test_the_wait_ends(wait_ms: int, least_s: float, most_s: float) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "bootstrap.wait.ms": wait_ms}
    began = time.monotonic()
    with pytest.raises(BrokerConnectionError, match="Connection refused"):
        await first_call(Producer, settings)
    assert least_s <= time.monotonic() - began < most_s


def test_a_command_waits_for_its_broker(tmp_path: Path) -> None:
    broker = PybrokerProcess(tmp_path)
    broker.launch()
    try:
        done = CliRunner().invoke(cli, ["cluster", "id", "-b", broker.bootstrap, "--wait-for-broker", "120"])
        assert done.exit_code == 0, done.output
    finally:
        broker.kill()
