"""A broker for the duration of the job: `pybroker start` in a child process, as a user would start it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


class ServerError(Exception):
    """The broker did not start, or did not stop cleanly; the message has the end of its log."""


def _answers(bootstrap: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=1).brokers)
    except KafkaException:
        return False


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run a broker with its data below `folder` and yield its bootstrap address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = folder / "broker.log"
    settings = (f"listeners=PLAINTEXT://{address}", f"log.dirs={folder / 'data'}")
    command = [sys.executable, "-m", "pybroker", "start"]
    for setting in settings:
        command += ["--set", setting]
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        give_up = time.monotonic() + START_TIMEOUT_S
        while not _answers(address):
            if child.poll() is not None or time.monotonic() > give_up:
                raise ServerError(f"the broker did not start:\n{_tail(log)}")
            time.sleep(0.05)
        yield address
        child.terminate()
        code = child.wait(STOP_TIMEOUT_S)
        if code != 0:
            raise ServerError(f"the broker ended with exit code {code}:\n{_tail(log)}")
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
