"""`pybroker topics undelete | truncate | history | deletions` as an operator types them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from functools import partial

import pytest

from pybroker.native import Uuid
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import Lives


def topics_command(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """Run `pybroker topics …`; return its stdout if it succeeds, else its stderr."""
    command = [sys.executable, "-m", "pybroker", "topics", *arguments, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.checklist("U2", "U3", "U4", "U5")
def test_the_commands(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives = Lives(broker.port)
    run = partial(topics_command, broker)

    first = lives.create("told")
    lives.produce("told", "a", "b")
    truncated = json.loads(run("truncate", "told", "--keep-offsets", "--json"))
    assert truncated["old_topic_id"] == str(first)
    waiting = json.loads(run("deletions", "--json"))
    assert [one["topic_id"] for one in waiting] == [str(first)]
    assert 0 < waiting[0]["partitions"][0]["remaining_ms"] <= 14_400_000
    refused = run("undelete", str(first), code=1)
    assert "--as" in refused
    assert "Traceback" not in refused
    assert "told-old" in run("undelete", str(first), "--as", "told-old")
    assert lives.read("told-old") == ["a", "b"]
    lives.delete("told-old")
    story = run("history", "told")
    assert truncated["topic_id"] in story
    assert "truncate" not in story.splitlines()[0]
    events = json.loads(run("history", str(first), "--json"))[0]["events"]
    assert [event["what"] for event in events] == ["create", "truncate", "undelete", "delete"]
    assert {event["by"] for event in events} == {"User:ANONYMOUS"}
    assert json.loads(run("history", "told", "--json"))[0]["partitions"][0]["log_start_offset"] == 2
    assert "There is no deleted topic nonsense" in run("undelete", "nonsense", code=1)
    assert "There is no topic" in run("history", "nothing", code=1)
    # The commands read an id as hex and as a UUID, as other tools print it. A wait ends at its timeout.
    for text in (first.hex, str(uuid.UUID(first.hex))):
        assert json.loads(run("history", text, "--json"))[0]["topic_id"] == str(first)
    assert "after 0 s" in run("deletions", "--wait", str(first), "--timeout", "0", code=1)
    assert "--timeout requires --wait" in run("deletions", "--timeout", "1", code=2)


@pytest.mark.checklist("U4", "U5")
def test_a_name_that_looks_like_an_id_is_found(start_broker: StartBroker) -> None:
    broker = start_broker({"delete.topic.delay.ms": "0"})
    name = "orders-of-the-year-now"
    assert Uuid.parse(name)
    first = Lives(broker.port).create(name)
    assert json.loads(topics_command(broker, "history", name, "--json"))[0]["topic_id"] == str(first)
    second = json.loads(topics_command(broker, "truncate", name, "--json"))["topic_id"]
    Lives(broker.port).delete(name)
    gone = json.loads(topics_command(broker, "deletions", "--wait", name, "--json"))
    assert {one["topic_id"] for one in gone} == {str(first), second}
    assert "There is no deleted topic" in topics_command(broker, "deletions", "--wait", str(Uuid.random()), code=1)


@pytest.mark.checklist("U3", "U4")
def test_waiting_until_it_is_gone(start_broker: StartBroker) -> None:
    broker = start_broker({"delete.topic.delay.ms": "0"})
    first = Lives(broker.port).create("brief")
    Lives(broker.port).delete("brief")
    for which in (str(first), "brief"):
        assert json.loads(topics_command(broker, "deletions", "--wait", which, "--json"))[0]["state"] == "removed"
    assert "is gone" in topics_command(broker, "undelete", str(first), code=1)
    assert json.loads(topics_command(broker, "deletions", "--json")) == []
