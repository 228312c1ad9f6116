"""Names chosen by clients reach an administrator's terminal without their escape sequences."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import pybroker.cli
from pybroker.broker.logs import KafkaFormatter
from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.printable import printable
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\nforged"
ESCAPED = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\nforged"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def evil(broker: BrokerProcess) -> Iterator[str]:
    """Use the hostile text as the name of a group with a member, of its client, of a principal and of a user with
    quotas, and as a transactional id."""
    name = f"{unique('evil')}{EVIL}"
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": name}
    topic = unique("topic")
    with blocking.AdminClient(settings) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with blocking.TransactionalProducer({**settings, "transactional.id": name}) as producer:
        with producer.transaction():
            producer.send(topic, b"value")
        with blocking.Consumer({**settings, "group.id": name, "group.instance.id": name}) as consumer:
            consumer.subscribe([topic])
            while not consumer.assignment():
                consumer.poll(0.2)
            consumer.commit({TopicPartition(topic, 0): 1})
            yield name


@pytest.mark.parametrize(
    "command",
    [
        "groups list",
        "groups describe {name}",
        "groups describe {name} --members",
        "groups delete {name}",
        "groups reset-offsets {name} --to-earliest",
        "transactions list",
        "transactions describe {name}",
        "quotas set --user {name} request_percentage=50",
        "quotas list",
        "topics describe {name}",
        "topics delete {name}",
        "consume {name}",
        "cluster health",
        "cluster describe",
        "cluster quorum status",
        "users list",
        "doctor",
        "topics history {name}",
        "topics undelete {name}",
        "groups delete-offsets {name} --topic {name}",
        "no-such-command-{name}",
    ],
)
def test_no_control_reaches_the_terminal(broker: BrokerProcess, evil: str, command: str) -> None:
    words = [word.replace("{name}", evil) for word in command.split()]
    if not command.startswith("no-such"):
        words += ["--bootstrap-server", broker.bootstrap]
    done = CliRunner().invoke(cli, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert not CONTROLS.search(done.output.replace("\t", "")), done.output
    if command in ("groups list", "transactions list"):
        assert ESCAPED in done.output


def test_commands_write_by_one_mechanism() -> None:
    """click's echo prints only text that does not come from a broker: the version, a shell's script, and the text of
    `say` itself."""
    root = Path(pybroker.cli.__file__).parent
    users = {str(path.relative_to(root)) for path in root.rglob("*.py") if "click.echo(" in path.read_text()}
    assert users == {"__init__.py", "output.py", "shell_completion.py"}


def test_a_log_line_has_no_controls_either() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError as error:
        record = logging.LogRecord("a", logging.WARNING, "f", 1, "of %s", (EVIL,), (ValueError, error, None))
    first, *trace = KafkaFormatter().format(record).splitlines()
    assert ESCAPED in first
    assert not CONTROLS.search("".join((first, *trace)))
    assert printable("grün\n") == "grün\\n"
