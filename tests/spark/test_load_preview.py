"""Checks of `pybroker ingest load` before Spark starts: no test here starts it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.cli.ingest import load_command as load_module
from pybroker.client import blocking
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

FILES = {
    "names.csv": "id,price\n7,1.10\n",
    "rows.csv": "anna,berlin\nben,paris\n",
    "one.csv": "id;a\n",
    "bad.parquet": "no parquet at all\n",
    "lines.text": "a\nb\n",
    "short.csv": "a,b\n1,2\n\n3\n",
    "long.csv": "1,2\n3,4,5\n",
    "quoted.csv": 'a,b\n"1,2",3\n4,"5"\n',
}


class SparkStarted(Exception):
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def session(*_: object, **__: object) -> None:
        raise SparkStarted

    monkeypatch.setattr(load_module, "session", session)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "good.parquet")
    return tmp_path


def load(broker: BrokerProcess, file: Path, *words: str, topic: str | None = None) -> Result:
    kind = ["--format", file.suffix[1:]]
    topic_words = ["--topic", topic or unique("load"), "--create-topic"]
    return CliRunner().invoke(cli, ["-b", broker.bootstrap, "ingest", "load", str(file), *kind, *topic_words, *words])


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("nothing.csv", (), "nothing.csv (--format csv): no such file"),
        ("no*.csv", (), "no such file"),
        ("bad.parquet", (), "bad.parquet has a different format"),
        ("good.parquet", ("--key", "no"), "--key no: no such column; columns: id, name"),
        (
            "good.parquet",
            ("--value", "raw"),
            "--value raw requires exactly one column besides the key; columns: id, name",
        ),
        ("names.csv", ("--header", "--key", "no"), "--key no: no such column; columns: id, price"),
        (
            "names.csv",
            ("--key", "id"),
            "columns: _c0, _c1; the first line looks like column names: use --header",
        ),
        ("names.csv", ("--option", "header=true", "--value", "raw"), "columns: id, price"),
        ("one.csv", ("--header", "--option", "sep=;", "--key", "b"), "columns: id, a"),
        ("lines.text", ("--key", "id"), "--key id: no such column; columns: value"),
        ("short.csv", ("--header",), "short.csv, line 4: expected 2 cells, found 1: 3 (to load the other lines, use"),
        ("long.csv", (), "long.csv, line 2: expected 2 cells, found 3: 3,4,5 (to load the other lines, use"),
        ("rows.csv", ("--partitions", "100000000"), "createTopic: topic"),
    ],
)
def test_mistakes_cost_no_start_of_spark(
    broker: BrokerProcess, folder: Path, name: str, words: tuple[str, ...], said: str
) -> None:
    done = load(broker, folder / name, *words)
    assert done.exit_code == 1, done.output
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_name_that_no_topic_may_have(broker: BrokerProcess, folder: Path) -> None:
    done = load(broker, folder / "rows.csv", topic="no/topic")
    assert done.exit_code == 1
    assert "INVALID_TOPIC_EXCEPTION" in done.stderr


def test_no_topic_is_made_before_the_load_begins(broker: BrokerProcess, folder: Path) -> None:
    topic = unique("load")
    done = load(broker, folder / "rows.csv", topic=topic)
    assert isinstance(done.exception, SparkStarted), done.output
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        assert topic not in admin.list_topics()


@pytest.mark.parametrize(
    ("name", "words", "hinted"),
    [
        ("names.csv", (), True),
        ("names.csv", ("--header",), False),
        ("names.csv", ("--option", "header=false"), True),
        ("rows.csv", (), False),
        ("quoted.csv", ("--header",), False),
        ("short.csv", ("--header", "--option", "mode=PERMISSIVE"), False),
        ("good.parquet", (), False),
    ],
)
def test_a_first_line_of_names_is_hinted_at(
    broker: BrokerProcess, folder: Path, name: str, words: tuple[str, ...], hinted: bool
) -> None:
    done = load(broker, folder / name, *words)
    assert isinstance(done.exception, SparkStarted), done.output
    assert ("use --header to read it as names" in done.stderr) == hinted


@pytest.mark.parametrize("words", [("--header", "--option", "Header=false"), ("--header", "--format", "json")])
def test_header_contradicts_other_options(broker: BrokerProcess, folder: Path, words: tuple[str, ...]) -> None:
    assert load(broker, folder / "names.csv", *words).exit_code == 2
