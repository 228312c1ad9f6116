"""`--json`: the keys are the same in every command, and one page documents all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.native import Uuid
from pybroker.spark import ingest_steps
from pybroker.spark.cluster_requests import SparkCluster
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
IDS = {"topic_id", "old_topic_id", "successor_id"}
MAPS = {"configs"}
"""Keys whose values are objects with setting names as keys."""


def ask(broker: BrokerProcess, *arguments: str) -> Any:
    done = CliRunner().invoke(cli, [*arguments, "--json", "--bootstrap-server", broker.bootstrap])
    # `cluster health` ends with 1 when any topic on the shared broker has a problem.
    assert done.exit_code in ((0, 1) if arguments == ("cluster", "health") else (0,)), done.output
    return json.loads(done.stdout)


def entries(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth."""
    if isinstance(document, list):
        for each in document:
            yield from entries(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield key, value
            if key not in MAPS:
                yield from entries(value)


@pytest.fixture(scope="module")
def names() -> tuple[str, str, str]:
    """Return names of a topic, a group and an ingest that no other test uses."""
    return unique("told"), unique("group"), unique("ingest")


@pytest.fixture(scope="module")
def told(broker: BrokerProcess, names: tuple[str, str, str]) -> dict[str, Any]:
    """Return the output of the commands from a topic's creation to its purge, by command."""
    topic, group, load = names
    documents: dict[str, Any] = {}

    def run(*arguments: str) -> Any:
        documents[" ".join(arguments)] = document = ask(broker, *arguments)
        return document

    topic_id = run("topics", "create", topic, "--partitions", "2", "--config", "retention.ms=86400000")["topic_id"]
    run("topics", "create", topic, "--if-not-exists")
    run("topics", "list", topic)
    run("topics", "describe", topic)
    run("topics", "alter", topic, "--partitions", "3")
    run("configs", "describe", "--topic", topic)
    run("configs", "alter", "--topic", topic, "--add-config", "retention.ms=1")
    run("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    run("groups", "list")
    run("groups", "describe", group)
    run("groups", "describe", group, "--members")
    cluster = SparkCluster({"bootstrap.servers": broker.bootstrap})
    ingest_steps.begin(cluster, topic_id, load, join=False)
    run("ingest", "list", topic)
    run("ingest", "describe", load)
    run("ingest", "abort", load)
    new = run("topics", "truncate", topic)["topic_id"]
    run("topics", "delete", "--topic-id", new)
    run("topics", "deletions")
    run("topics", "undelete", new)
    run("topics", "history", topic)
    run("groups", "delete", group)
    run("cluster", "describe")
    run("cluster", "health")
    run("cluster", "id")
    run("cluster", "log-dirs")
    run("users", "list")
    run("topics", "delete", topic)
    return documents


def test_a_key_means_the_same_everywhere(told: dict[str, Any], names: tuple[str, str, str]) -> None:
    """A topic's name, its id and an ingest's name each have the same key in every command."""
    topic, group, load = names
    ids = {each["topic_id"] for each in told[f"topics history {topic}"]}
    assert len(ids) == 2
    for command, document in told.items():
        for key, value in entries(document):
            assert re.fullmatch("[a-z]+(_[a-z]+)*", key), (command, key)
            if value == topic:
                assert key in {"topic", "entity_name"}, (command, key)
            if isinstance(value, str) and value in ids:
                assert key in IDS, (command, key)
            if key in IDS:
                assert value is None or Uuid.parse(value), (command, key)
            if value == load:
                assert key == "ingest_id", (command, key)
            if value == group:
                assert key == "group", (command, key)


def test_every_key_is_explained(told: dict[str, Any]) -> None:
    """The page has each key by its name, or by its end, such as `…_ms`."""
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text().partition("## JSON")[2], re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([a-z_…]+)`", row)}
    ends = tuple(name.removeprefix("…") for name in explained if name.startswith("…"))
    used = {key for document in told.values() for key, _ in entries(document)}
    assert {key for key in used - explained if not key.endswith(ends)} == set()


def test_one_thing_is_an_object_and_several_are_an_array(told: dict[str, Any]) -> None:
    several = {"list", "describe", "history", "deletions", "log-dirs"}
    for command, document in told.items():
        noun, verb, *_ = command.split()
        if noun in ("groups", "cluster") and verb in ("describe", "health"):
            continue
        assert isinstance(document, list) == (verb in several), command
