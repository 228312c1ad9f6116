"""Commands, errors and responses to clients explain how to undelete a topic."""

from __future__ import annotations

import json
from functools import partial

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.topic_ids.lives import Lives, until
from tests.topic_ids.test_lineage_commands import topics_command


@pytest.mark.checklist("U3", "U4")
def test_deleting_says_how_it_comes_back(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives, run = Lives(broker.port), partial(topics_command, broker)
    first = lives.create("orders")
    lives.produce("orders", "a")
    dry = run("truncate", "orders", "--dry-run")
    assert "1 records" in dry
    assert "gets a new id" in dry
    assert lives.metadata("orders").topic_id == first
    deleted = json.loads(run("delete", "orders", "--json"))
    assert (deleted["topic_id"], deleted["deleted"], deleted["undeletable"]) == (str(first), True, True)
    (found,) = lives.deletions(first)
    assert deleted["remove_after_ms"] == found.remove_after_ms > found.deleted_ms
    # Each command that finds no topic reports its deletion.
    for arguments in (
        ("describe", "orders"),
        ("alter", "orders", "--partitions", "2"),
        ("delete", "orders"),
        ("delete", "--topic-id", str(first)),
        ("truncate", "orders"),
        ("truncate", "orders", "--dry-run"),
    ):
        refused = run(*arguments, code=1)
        assert "deleted " in refused, arguments
        assert "by User:ANONYMOUS" in refused, arguments
        assert f"`pybroker topics undelete {first}`" in refused, arguments
    for command in (
        ("consume", "orders"),
        ("configs", "describe", "--topic", "orders"),
        ("configs", "alter", "--topic", "orders", "--add-config", "retention.ms=1"),
        ("ingest", "list", "--topic", "orders"),
        ("bench", "produce", "--topic", "orders"),
    ):
        done = CliRunner().invoke(cli, [*command, "--bootstrap-server", broker.bootstrap])
        assert done.exit_code == 1, command
        assert f"`pybroker topics undelete {first}`" in done.stderr, (command, done.stderr)
    assert "deleted at" in run("delete", "orders", "--if-exists")
    answer = lives.delete("orders")
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert f"`pybroker topics undelete {first}` brings it back" in answer.error_message
    assert "There is no topic nothing.\n" in run("describe", "nothing", code=1)
    # The command works by name if only one deleted topic has the name.
    assert f"Undeleted topic orders with id {first}" in run("undelete", "orders")
    run("delete", "orders")
    second = lives.create("orders")
    run("delete", "orders")
    candidates = run("undelete", "orders", code=1)
    assert "2 deleted topics had the name orders" in candidates
    assert all(str(one) in candidates for one in (first, second))
    assert "There is no deleted topic nothing" in run("undelete", "nothing", code=1)


@pytest.mark.checklist("U3")
def test_an_old_client_does_not_make_a_deleted_name_again_where_that_is_off(start_broker: StartBroker) -> None:
    broker = start_broker({"auto.create.topics.enable": "true", "auto.create.deleted.topics.enable": "false"})
    lives = Lives(broker.port)

    def asked_for(name: str) -> int:
        topics = [m.MetadataRequest_MetadataRequestTopic(name=name)]
        code: int = lives.call(m.MetadataRequest(topics=topics), 1).topics[0].error_code
        return code

    until(lambda: asked_for("fresh") == 0)
    first = lives.create("orders")
    lives.produce("orders", "a")
    lives.delete("orders")
    for _ in range(3):
        assert asked_for("orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert lives.undelete(first).error_code == 0
    assert asked_for("orders") == 0
    assert lives.read("orders") == ["a"]
    lives.delete("orders")
    assert asked_for("orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    lines = [line for line in broker.console.read_text().splitlines() if "automatic topic creation refused" in line]
    assert len(lines) == 1
    assert f"name=orders id={first}" in lines[0]
    # Data that cannot be restored is no reason to refuse; CreateTopics is never delayed.
    assert lives.purge(first).error_code == 0
    until(lambda: asked_for("orders") == 0)
    second = lives.metadata("orders").topic_id
    lives.delete("orders")
    assert lives.create("orders") not in (first, second)


@pytest.mark.checklist("U3", "U5")
def test_by_default_a_name_is_made_again_and_the_history_says_who_asked(start_broker: StartBroker) -> None:
    broker = start_broker({"auto.create.topics.enable": "true"})
    lives, run = Lives(broker.port), partial(topics_command, broker)
    first = lives.create("orders")
    lives.delete("orders")
    topics = [m.MetadataRequest_MetadataRequestTopic(name="orders")]
    until(lambda: lives.call(m.MetadataRequest(topics=topics), 1).topics[0].error_code == 0)
    made, dead = lives.history("orders").incarnations
    assert dead.topic_id == first
    assert made.created_how == "auto-create"
    assert made.created_by.startswith("User:ANONYMOUS (client ")
    assert "at 127.0.0.1)" in made.created_by
    assert "auto-created" in run("history", "orders")


@pytest.mark.checklist("U5")
def test_the_history_of_a_name_goes_on_under_other_names(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives, run = Lives(broker.port), partial(topics_command, broker)
    first = lives.create("orders")
    lives.produce("orders", "a")
    lives.delete("orders")
    assert lives.undelete(first, "orders-old").error_code == 0
    second = lives.create("orders")
    third = lives.truncate("orders").topic_id
    for name in ("orders", "orders-old"):
        found = {one.topic_id: one.name for one in lives.history(name).incarnations}
        assert found[first] == "orders-old"
    assert {one.topic_id for one in lives.history("orders").incarnations} == {first, second, third}
    lives.delete("orders-old")
    assert lives.purge(first).error_code == 0

    def events(*arguments: str) -> list[list[str]]:
        _, _, *rows = run("history", *arguments).splitlines()
        return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows if row.strip()]

    shown = events("orders")
    whens = [row[0] for row in shown]
    assert whens == sorted(whens, reverse=True)
    assert [(row[1], row[3]) for row in shown] == [
        ("purged", str(first)),
        ("deleted", str(first)),
        ("truncated", str(second)),
        ("created", str(second)),
        ("undeleted, renamed", str(first)),
        ("deleted", str(first)),
        ("created", str(first)),
    ]
    assert f"new id {third}" in shown[2][-1]
    assert [row[1] for row in events(str(first))] == ["purged", "deleted", "undeleted, renamed", "deleted", "created"]
    broker.restart(crash=True)
    assert events("orders")[1:] == shown[1:]
