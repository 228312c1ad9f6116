"""`pybroker archive` and `pybroker ingest`, as a user runs them."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pybroker.cli.archive import bound
from pybroker.cli.avro import encoded, schema_of
from pybroker.cli.spark_jobs import reason
from tests.clients.api import Record
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

PARTITIONS = 2
TIMEOUT_S = 600


def _run(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "pybroker", *arguments, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.slow
def test_an_archive_holds_every_record_and_where_it_came_from(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Parquet with lineage columns; the summary says which offsets."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, PARTITIONS)
    client.producer().send(topic, [Record(number % PARTITIONS, f"k{number}", f"v{number}") for number in range(100)])
    told = json.loads(_run(broker, "archive", topic, str(tmp_path / "out"), "--master", "local[2]", "--json"))
    assert [(each["partition"], each["first"], each["last"], each["rows"]) for each in told] == [
        (0, 0, 49, 50),
        (1, 0, 49, 50),
    ]
    table = pq.read_table(tmp_path / "out")
    rows = sorted(table.to_pylist(), key=lambda row: (row["_partition"], row["_offset"]))
    assert [row["_offset"] for row in rows] == [*range(50), *range(50)]
    assert {row["_topic_id"] for row in rows} == {told[0]["topic id"]}
    assert sorted(row["value"] for row in rows) == sorted(f"v{number}".encode() for number in range(100))
    assert all(row["_cluster_id"] and isinstance(row["_timestamp"], dt.datetime) for row in rows)


def test_mistakes_are_one_line(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """No traceback of Spark's."""
    text = _run(broker, "archive", topic, str(tmp_path / "out"), "--master", "local[1]", code=1)
    assert text.strip().splitlines()[-1].startswith(f"Error: there is no topic {topic} in cluster")
    text = _run(broker, "archive", topic, str(tmp_path / "out"), "--from", "noon", code=2)
    assert "noon: earliest, latest, milliseconds" in text


@pytest.mark.parametrize(
    ("text", "option"),
    [
        (None, {}),
        ("earliest", {"startingOffsets": "earliest"}),
        ('{"t": {"0": 5}}', {"startingOffsets": '{"t": {"0": 5}}'}),
        ("1795219200000", {"startingTimestamp": "1795219200000"}),
        ("2026-11-21T00:00:00+00:00", {"startingTimestamp": "1795219200000"}),
    ],
)
def test_a_range_is_said_in_several_ways(text: str | None, option: dict[str, str]) -> None:
    """Words, times and offsets."""
    assert bound(text, "starting") == option
    with pytest.raises(click.BadParameter):
        bound("{", "starting")


def test_the_reason_is_taken_out_of_a_workers_traceback() -> None:
    """The last line that names an error of ours; else the first."""
    text = "Job aborted\nTraceback\n  File x\npybroker.spark.errors.OptionError: there is no option x\n\tat java"
    assert reason(text) == "there is no option x"
    assert reason("\n\n[PATH_NOT_FOUND] no\nat java") == "[PATH_NOT_FOUND] no"


def test_rows_in_avro_are_read_by_their_schema() -> None:
    """Nested, null, decimal and temporal values."""
    import io
    from decimal import Decimal

    import fastavro
    from pyspark.sql import types as t

    inner = t.StructType([t.StructField("x", t.DoubleType()), t.StructField("day", t.DateType())])
    struct = t.StructType(
        [
            t.StructField("id", t.LongType(), nullable=False),
            t.StructField("name", t.StringType()),
            t.StructField("price", t.DecimalType(10, 2)),
            t.StructField("at", t.TimestampType()),
            t.StructField("tags", t.ArrayType(t.StringType())),
            t.StructField("more", t.MapType(t.StringType(), t.IntegerType())),
            t.StructField("inner", inner),
        ]
    )
    schema = schema_of(struct)
    row = {
        "id": 7,
        "name": None,
        "price": Decimal("12.50"),
        "at": dt.datetime(2026, 11, 21, 1, 2, 3, tzinfo=dt.UTC),
        "tags": ["a", None],
        "more": {"x": 1},
        "inner": {"x": 1.5, "day": dt.date(2026, 11, 21)},
    }
    data = encoded(schema, row)
    assert fastavro.schemaless_reader(io.BytesIO(data), schema, None) == row


def _files(folder: Path) -> None:
    table = pa.table({"id": list(range(1000)), "name": [f"n{number % 10}" for number in range(1000)]})
    folder.mkdir()
    for number in range(2):
        pq.write_table(table.slice(number * 500, 500), folder / f"{number}.parquet")


def test_files_are_loaded_once_under_one_name(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """A second load of the same name does nothing; ls, show and abort know it."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, PARTITIONS)
    _files(tmp_path / "in")
    load = ("ingest", "load", str(tmp_path / "in"), "--format", "parquet", "--topic", topic, "--key", "id")
    for _ in range(2):
        told = json.loads(_run(broker, *load, "--ingest-id", topic, "--master", "local[2]", "--json"))
        assert (told["state"], told["rows"]) == ("committed", 1000)
        assert sum(each["last"] - each["first"] + 1 for each in told["partitions"]) == 1000
    found = client.read(topic, PARTITIONS, 1000)
    assert len(found) == 1000
    one = next(each for each in found if each.key == "42")
    assert json.loads(one.value or "") == {"id": 42, "name": "n2"}
    assert topic in _run(broker, "ingest", "ls", "--topic", topic)
    assert f"{topic} into {topic}" in _run(broker, "ingest", "show", topic)
    assert "its records are in the topic" in _run(broker, "ingest", "abort", topic, code=1)
    assert "there is no ingest" in _run(broker, "ingest", "show", "nothing", code=1)
