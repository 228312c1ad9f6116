"""Kafka's own Verifiable… programs, which print their events as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

from tests.support.java import java_command
from tests.support.maven import TOOLS, jars

LIMIT_S = 120.0


class Program:
    """One of Kafka's programs, and its events so far."""

    def __init__(self, name: str, *arguments: str) -> None:
        command = java_command(f"{jars(TOOLS)}/*", f"org.apache.kafka.tools.{name}", arguments)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return the program's events of one kind."""
        events = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [event for event in events if event["name"] == name]

    def ends(self) -> None:
        """Wait until the program ends by itself, or after it was asked to end."""
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
