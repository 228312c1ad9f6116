"""Kafka's tools and ours show, reset and delete streams groups (KIP-1071)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.groups.kit import create_topic, unique
from tests.streams.kit import QUICK, Counts, Instance, say, until
from tests.support.brokers import PybrokerProcess
from tests.support.kafka_tools import run_tool


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(tmp_path_factory.mktemp("streams"), QUICK)
    broker.start()
    yield broker
    broker.end()


def test_kafkas_tools_and_ours_show_reset_and_delete_it(broker: PybrokerProcess, tmp_path: Path) -> None:
    topics = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 2)
    application = unique("words")

    def tool(*arguments: str) -> list[list[str]]:
        lines = run_tool("kafka-streams-groups", ["--bootstrap-server", broker.bootstrap, *arguments]).splitlines()
        return [line.split() for line in lines]

    def ours(*arguments: str) -> Any:
        command = [sys.executable, "-m", "pybroker", "groups", *arguments, "--bootstrap-server", broker.bootstrap]
        done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    with (
        Instance(broker.bootstrap, application, topics, tmp_path) as instance,
        Counts(broker.bootstrap, topics[1]) as counts,
    ):
        say(broker.bootstrap, topics[0], ["a b", "b c"])
        counts.reach({"a": 1, "b": 2, "c": 1}, instance)
        assert [application] in tool("--list")
        assert any(row[:2] == [application, "Streams"] for row in _rows("kafka-groups", broker, "--list"))
        until(
            lambda: any(row[:2] == [application, "Stable"] for row in tool("--list", "--state")),
            "it is settled",
            instance,
        )
        assert any(application in row for row in tool("--describe", "--group", application, "--members"))
        assert any(topics[0] in row for row in tool("--describe", "--group", application))
        assert {"group": application, "state": "Stable", "protocol": "streams"} in ours("list")
        shown = ours("describe", application)
        assert shown["state"] == "Stable"
        of_lines = [row for row in shown["positions"] if row["topic"] == topics[0]]
        assert sum(row["offset"] or 0 for row in of_lines) == 2
        assert all(row["member"] for row in of_lines if row["offset"])
        instance.stop()
    until(lambda: any(row[:2] == [application, "Empty"] for row in tool("--list", "--state")), "it has left")
    tool("--reset-offsets", "--group", application, "--all-input-topics", "--to-earliest", "--execute")
    again = [row for row in ours("describe", application)["positions"] if row["topic"] == topics[0]]
    assert sum(row["offset"] for row in again) == 0
    tool("--delete", "--group", application)
    assert [application] not in tool("--list")
    assert application not in {row["group"] for row in ours("list")}


def _rows(name: str, broker: PybrokerProcess, *arguments: str) -> list[list[str]]:
    lines = run_tool(name, ["--bootstrap-server", broker.bootstrap, *arguments]).splitlines()
    return [line.split() for line in lines]
