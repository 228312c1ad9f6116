"""Every failure of a command is one line on stderr and an exit code other than 0; nothing else claims success."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    name = unique("there")
    assert CliRunner().invoke(cli, ["-b", broker.bootstrap, "topics", "create", name]).exit_code == 0
    return name


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topics create {topic}", "TOPIC_ALREADY_EXISTS"),
        ("topics create no/topic", "INVALID_TOPIC_EXCEPTION"),
        ("topics create x --config nonsense=1", "unknown topic setting nonsense"),
        ("topics create x --replication-factor 9", "INVALID_REPLICATION_FACTOR"),
        ("topics describe nothing", "There is no topic nothing."),
        ("topics delete nothing", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("topics alter {topic} --partitions 1", "INVALID_PARTITIONS"),
        ("topics history nothing", "nothing"),
        ("topics truncate nothing", "There is no topic nothing."),
        ("configs describe --topic nothing", "There is no topic nothing."),
        ("configs alter --topic {topic} --add-config nonsense=1", "unknown topic setting nonsense"),
        ("configs alter --topic {topic} --delete-config retention.msec", "did you mean 'retention.ms'?"),
        ("configs describe --broker 99", "There is no broker 99"),
        ("groups describe nothing", "GROUP_ID_NOT_FOUND"),
        ("groups delete nothing", "GROUP_ID_NOT_FOUND"),
        ("groups reset-offsets nothing --to-earliest", "has no positions"),
        ("groups delete-offsets nothing --topic {topic}", "has no positions"),
        ("transactions describe nothing", "TRANSACTIONAL_ID_NOT_FOUND"),
        ("transactions abort nothing", "TRANSACTIONAL_ID_NOT_FOUND"),
        ("consume nothing", "There is no topic nothing"),
        ("produce {topic} --file /nowhere", "Wrote 0 records"),
        ("cluster unregister 99 --yes", "BROKER_ID_NOT_REGISTERED"),
        ("cluster drain 99 --yes", "There is no broker 99."),
        ("users remove nothing", "There is no user 'nothing'."),
        ("quotas set --user alice-x producer_byte_rate=-1", "quotas of user alice-x: Quota producer_byte_rate must be"),
        ("ingest describe nothing", "There is no ingest nothing"),
        ("bench produce --records 1 --topic nothing", "There is no topic nothing"),
        ("diagnose --config /nowhere", "/nowhere cannot be read"),
        ("adopt /nowhere", "is not a directory"),
    ],
)
def test_what_cannot_be_done(broker: BrokerProcess, topic: str, line: str, said: str) -> None:
    words = line.format(topic=topic).split()
    done = CliRunner().invoke(cli, words, env={"PYBROKER_BOOTSTRAP_SERVER": broker.bootstrap})
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "topics list", "topics create x", "topics delete x", "topics deletions", "configs describe --broker 1",
        "groups list", "groups describe g", "transactions list", "transactions find-hanging", "produce x", "consume x",
        "cluster id", "cluster describe", "cluster health", "cluster log-dirs", "cluster balance --yes", "acls list",
        "users list", "quotas list", "ingest list", "archive x /nowhere", "bench produce", "bench e2e",
    ],
)  # fmt: skip
def test_no_broker_is_one_line(line: str) -> None:
    done = CliRunner().invoke(cli, ["-b", NOWHERE, *line.split()])
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert "Connection refused" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
