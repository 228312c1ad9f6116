"""Signals to a broker in the foreground, with a fake broker that does not stop on its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT_S = 60.0

# A broker whose start or stop hangs, in its own process, because signals go to a whole process.
SCRIPT = """
import asyncio, sys, types

class Hanging:
    services = types.SimpleNamespace(cluster_id="c", broker_id=1)
    endpoints = ()

    def __init__(self, config):
        self.failed = asyncio.get_running_loop().create_future()

    async def start(self):
        if sys.argv[1] == "start":
            print("starting", flush=True)
            await asyncio.sleep(600)

    async def stop(self):
        print("stopping", flush=True)
        if sys.argv[1] == "loop":
            import time
            await asyncio.sleep(0.3)
            print("stuck", flush=True)
            time.sleep(600)
        await asyncio.sleep(0.3)
        print("stuck", flush=True)
        await asyncio.sleep(600)

module = types.ModuleType("pybroker.broker.lifecycle.app")
module.Broker = Hanging
sys.modules["pybroker.broker.lifecycle.app"] = module
from pybroker.broker.lifecycle.process.foreground import start_command
settings = ["shutdown.timeout.ms=" + sys.argv[2]]
sys.exit(start_command(None, settings, None, None))
"""


def started(where: str, timeout_ms: int = 600_000) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, where, str(timeout_ms)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return
    pytest.fail(f"ended before saying {word!r}: {process.communicate()}")


@pytest.mark.checklist("R24")
@pytest.mark.parametrize("where", ["stop", "loop"])
def test_a_second_signal_ends_at_once(where: str) -> None:
    """This works even if the loop itself hangs."""
    process = started(where)
    try:
        wait_for(process, "pybroker is ready")
        process.terminate()
        wait_for(process, "stuck")
        process.terminate()
        assert process.wait(LIMIT_S) == -15
    finally:
        process.kill()
        process.communicate()


def test_a_signal_during_the_start_is_a_clean_end() -> None:
    process = started("start")
    try:
        wait_for(process, "starting")
        process.terminate()
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.checklist("R24")
def test_a_stop_that_hangs_is_ended() -> None:
    process = started("loop", 0)
    try:
        wait_for(process, "pybroker is ready")
        process.terminate()
        assert process.wait(LIMIT_S) == -14, "SIGALRM, after shutdown.timeout.ms and the grace"
    finally:
        process.kill()
        process.communicate()
