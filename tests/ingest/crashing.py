"""Brokers that are killed and started again on one data directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pybroker.native import Uuid
from tests.ingest.client import IngestClient
from tests.support.wire import free_port

PARTITIONS = 3


class Crashing:
    """Broker processes, one after another, on one data directory and port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.child: subprocess.Popen[str] | None = None
        self._client: IngestClient | None = None

    def start(self, step: str = "") -> None:
        """Start the broker for a step. "link …": records are linked however few they are; otherwise so few are
        copied."""
        command = [sys.executable, "-m", "tests.ingest.child", str(self.directory), str(self.port), step]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == "ready\n"

    @property
    def client(self) -> IngestClient:
        if self._client is None:
            self._client = IngestClient(self.port)
        return self._client

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def dies(self) -> None:
        assert self.child is not None
        assert self.child.wait(120) == -9
        self.disconnect()

    def kill(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.disconnect()

    def stop(self) -> None:
        assert self.child is not None
        self.disconnect()
        self.child.terminate()
        assert self.child.wait(120) == 0

    def values(self, topic_id: Uuid) -> list[list[str]]:
        return [[value for _, value in self.client.read(topic_id, index)] for index in range(PARTITIONS)]

    def staged_directories(self, topic_id: Uuid) -> list[Path]:
        return list((self.directory / "ingest" / topic_id.hex).glob("*"))
