"""`pybroker ingest load`: the bytes from each file, and the messages about refused files."""

from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import click
import confluent_kafka as ck
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import types as t

from pybroker.cli.ingest.avro import encoded, schema_of
from pybroker.cli.ingest.input_files import reader_options
from pybroker.cli.spark.spark_errors import no_jvm, reason
from pybroker.cli.spark.spark_session import PYSPARK_LOGGERS, quiet_pyspark
from tests.clients.confluent import Confluent
from tests.spark.commands import Done, apart, run_all
from tests.support.brokers import BrokerProcess

PARTITIONS = 2
SPARK = ("--master", "local[1]")
# Clocks are set back at 01:00 UTC: both of the first two are half past two there.
BERLIN = "Europe/Berlin"
HALF_HOURS = [dt.datetime(2026, 10, 25, hour, 30, tzinfo=dt.UTC) for hour in range(3)]
FILES = {
    "bad.orc": "this is no file of columns at all\n",
    "zip.csv": "id,zip,price\n007,01234,1.10\n008,00501,2.00\n",
    "short.csv": "a,b\n1,2\n3\n",
    "three.csv": "value,a,b\nk,A,B\n",
    "cut.json": '{"a":1}\n{"a":\n{"a":3}\n',
    "names.json": '{"user.id":1,"id":2,"ID":3}\n',
    "dot.json": '{"user.id":1,"it.is":"x"}\n',
    "space.json": '{"user id":1}\n',
}
TOPICS = ("load-zip", "load-cut", "load-names", "load-dot", "load-avro", "load-rows")


@pytest.fixture(scope="module")
def loads(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """All loads of this file, and functions that query them."""
    folder = tmp_path_factory.mktemp("load files")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    pq.write_table(pa.table({"at": pa.array(HALF_HOURS, pa.timestamp("us", "UTC"))}), folder / "times.parquet")
    (folder / "rows").mkdir()
    for number in range(2):
        ids = range(number * 500, number * 500 + 500)
        pq.write_table(pa.table({"id": ids, "name": [f"n{i % 10}" for i in ids]}), folder / f"rows/{number}.parquet")
    client = Confluent(broker.bootstrap)
    for topic in TOPICS:
        client.create_topic(topic, PARTITIONS)

    def load(name: str, topic: str, *more: str) -> tuple[str, ...]:
        kind = Path(name).suffix[1:] or "parquet"
        return ("ingest", "load", str(folder / name), "--format", kind, "--topic", topic, *SPARK, "--json", *more)

    header = ("--option", "header=true")
    return run_all(
        broker,
        {
            "bogus": load("zip.csv", "load-zip", "--master", "bogus", *header),
            "local[x]": load("zip.csv", "load-zip", "--master", "local[x]", *header),
            "no =": load("zip.csv", "load-zip", "--option", "header"),
            "no mode": load("zip.csv", "load-zip", "--option", "mode=strict"),
            "no topic": load("zip.csv", "load-nothing"),
            "no id": load("zip.csv", "load-zip", "--ingest-id", ""),
            "no flag": load("zip.csv", "load-zip", "--option", "header=maybe"),
            "no file": load("nothing.csv", "load-zip"),
            "orc": load("bad.orc", "load-zip"),
            "zip": load("zip.csv", "load-zip", "--key", "id", *header),
            "short": load("short.csv", "load-cut", *header),
            "cut": load("cut.json", "load-cut"),
            "three raw": load("three.csv", "load-zip", "--value", "raw", "--key", "value", *header),
            "names": load("names.json", "load-names", "--key", "user.id", "--ingest-id", "day1"),
            "dot raw": load("dot.json", "load-dot", "--value", "raw", "--key", "user.id", "--ingest-id", "day1"),
            "space": load("space.json", "load-avro", "--value", "avro"),
            "avro": load("times.parquet", "load-avro", "--value", "avro"),
            "show": ("ingest", "show", "day1", "--json"),
            "show nothing": ("ingest", "show", "nothing", "--json"),
            "rows": load("rows", "load-rows", "--key", "id", "--ingest-id", "rows1"),
            "rows again": load("rows", "load-rows", "--key", "id", "--ingest-id", "rows1"),
            "show rows": ("ingest", "show", "rows1"),
            "show rows, json": ("ingest", "show", "rows1", "--json"),
            "ls": ("ingest", "ls", "--topic", "load-rows"),
            "abort": ("ingest", "abort", "rows1"),
        },
        BERLIN,
    )


def _values(broker: BrokerProcess, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "values"})
    ends = [consumer.get_watermark_offsets(ck.TopicPartition(topic, number))[1] for number in range(PARTITIONS)]
    consumer.assign([ck.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found = consumer.consume(sum(ends), 120) if sum(ends) else []
    consumer.close()
    assert len(found) == sum(ends)
    return sorted((each.key(), each.value()) for each in found)  # type: ignore[type-var]


def test_a_mistake_is_one_line_of_a_process(broker: BrokerProcess, tmp_path: Path) -> None:
    """No traceback, and none of the JVM's messages at its start."""
    Confluent(broker.bootstrap).create_topic("load-nothing-into", PARTITIONS)
    (tmp_path / "bad.parquet").write_text("this is no file of columns at all\n")
    command = [sys.executable, "-m", "pybroker", "ingest", "load", str(tmp_path / "bad.parquet"), *SPARK]
    command += ["--format", "parquet", "--topic", "load-nothing-into", "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    told, _ = apart(done.stderr)
    assert (done.returncode, done.stdout, len(told.splitlines())) == (1, "", 1), done.stderr
    assert f"Error: {tmp_path}/bad.parquet (--format parquet): " in told
    assert "bad.parquet has a different format" in told


def test_what_a_user_can_mend_is_named(loads: dict[str, Done]) -> None:
    """The option, the file or the topic, in one line."""
    assert loads["bogus"].line() == "--master bogus: Master must either be yarn or start with spark, k8s, or local"
    assert loads["local[x]"].line() == "--master local[x]: Could not parse Master URL: 'local[x]'"
    assert "'--option': header: expected NAME=VALUE" in loads["no ="].line(2)
    assert "mode=strict: expected one of FAILFAST, PERMISSIVE" in loads["no mode"].line(2)
    assert loads["no id"].line(2) == "Invalid value for '--ingest-id': is empty"
    assert loads["no topic"].line() == "There is no topic load-nothing. Use --create-topic to create it."
    assert loads["no flag"].line().endswith("zip.csv (--format csv): header flag can be true or false.")
    assert loads["no file"].line().endswith("nothing.csv (--format csv): no such file")
    assert "bad.orc (--format orc): " in loads["orc"].line()


def test_values_of_csv_stay_as_they_are(broker: BrokerProcess, loads: dict[str, Done]) -> None:
    """A number with leading zeros stays text."""
    assert loads["zip"].told["rows"] == 2
    assert _values(broker, "load-zip") == [
        (b"007", b'{"id":"007","zip":"01234","price":"1.10"}'),
        (b"008", b'{"id":"008","zip":"00501","price":"2.00"}'),
    ]


def test_a_line_that_cannot_be_read_ends_the_load(broker: BrokerProcess, loads: dict[str, Done]) -> None:
    """By default nothing is loaded, and the message names file and line."""
    assert "short.csv, line 3: expected 2 cells, found 1: 3 (to load the other lines, use" in loads["short"].line()
    assert 'load files0/cut.json: not a JSON object: {"a": (to load the other lines' in loads["cut"].line()
    assert _values(broker, "load-cut") == []
    assert reader_options(None, None, ("MODE=permissive", "header=true")) == {"mode": "PERMISSIVE", "header": "true"}


def test_raw_drops_no_column(loads: dict[str, Done]) -> None:
    """`--value raw` writes one column."""
    line = "--value raw requires exactly one column besides the key; columns: value, a, b"
    assert loads["three raw"].line() == line


def test_columns_may_have_dots_and_differ_in_case(broker: BrokerProcess, loads: dict[str, Done]) -> None:
    """As key, in the value, and as the value."""
    assert loads["names"].code == loads["dot raw"].code == 0, loads
    assert _values(broker, "load-names") == [(b"1", b'{"ID":3,"id":2,"user.id":1}')]
    assert _values(broker, "load-dot") == [(b"1", b"x")]


def test_timestamps_in_avro_know_no_zone(broker: BrokerProcess, loads: dict[str, Done]) -> None:
    """This holds even in the hour that is repeated when summer time ends."""
    line = loads["avro"].err.splitlines()[0]
    assert loads["avro"].told["rows"] == 3, loads["avro"].err
    assert len(loads["avro"].err.splitlines()) == 1, loads["avro"].err
    schema = json.loads(line.partition(": ")[2])
    read = [
        fastavro.schemaless_reader(io.BytesIO(value or b""), schema, None) for _, value in _values(broker, "load-avro")
    ]
    assert sorted(row["at"] for row in read) == HALF_HOURS  # type: ignore[index,call-overload]
    assert "--value avro: 'user id' is not a valid Avro field name" in loads["space"].line()


def test_an_ingest_is_known_by_topic_and_id(loads: dict[str, Done]) -> None:
    """The summary matches the load, and JSON is one document."""
    for name, topic in (("names", "load-names"), ("dot raw", "load-dot")):
        assert (loads[name].told["topic"], loads[name].told["rows"]) == (topic, 1)
    assert {each["topic"] for each in loads["show"].told} == {"load-names", "load-dot"}
    assert loads["show nothing"].line() == "There is no ingest nothing."


def test_files_are_loaded_once_under_one_name(broker: BrokerProcess, loads: dict[str, Done]) -> None:
    """A second load with the same name changes nothing; list, describe and abort know the ingest."""
    for told in (loads["rows"].told, loads["rows again"].told, *loads["show rows, json"].told):
        assert (told["state"], told["rows"]) == ("committed", 1000)
        assert sum(each["last"] - each["first"] + 1 for each in told["partitions"]) == 1000
    assert (loads["rows"].told["loaded"], loads["rows again"].told["loaded"]) == (True, False)
    assert loads["rows"].err == ""
    assert loads["rows again"].err == "ingest rows1 was already committed; nothing was written\n"
    found = _values(broker, "load-rows")
    assert len(found) == 1000
    assert (b"42", b'{"id":42,"name":"n2"}') in found
    assert "load-rows" in loads["ls"].out
    assert "rows1 into load-rows" in loads["show rows"].out
    assert "its records are in the topic" in loads["abort"].line()


def test_the_reason_is_taken_out_of_what_spark_says() -> None:
    """The end of a worker's traceback; else the first line, without classes, and its cause."""
    text = "Job aborted\nTraceback\n  File x\npybroker.spark.source_errors.OptionError: there is no option x\n\tat java"
    assert reason(text) == "there is no option x"
    assert reason("\n\n[PATH_NOT_FOUND] no\nat java") == "[PATH_NOT_FOUND] no"
    called = "An error occurred while calling o1.load.\n: org.apache.spark.SparkException: "
    thrown = "Exception thrown. SQLSTATE: KD001; line 1 pos 3;"
    assert reason(f"{called}{thrown}\n\tat x\nCaused by: java.io.IOException: why\n\t... 1") == "Exception thrown. why"
    job = (
        "Job aborted due to stage failure: Task 0 in stage 14.0 failed 1 times, most recent failure: Lost task 0.0 in "
    )
    job += "stage 14.0 (TID 14) (localhost executor driver): java.io.IOException: Mkdirs failed"
    assert reason(f"{called}{job}\nCaused by: java.io.IOException: Mkdirs failed") == "Mkdirs failed"
    worker = "An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File x\n    y()\n"
    assert reason(f"{worker}ValueError: too large\n\n\tat org.apache") == "ValueError: too large"
    assert reason("") == "Spark failed"


def test_pyspark_logs_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    """pyspark logs JSON only on request."""
    for verbose in (False, True):
        quiet_pyspark(verbose=verbose)
        PySparkLogger.getLogger(PYSPARK_LOGGERS[1]).exception("no", errorClass="X")  # type: ignore[no-untyped-call]
        assert bool(capsys.readouterr().err) == verbose


def test_a_jvm_that_does_not_start_says_why() -> None:
    """The written data is shown as a line."""
    assert no_jvm("WARNING: x\nJAVA_HOME is not set\n") == "JAVA_HOME is not set"
    assert "check that Java is installed" in no_jvm("")


def test_rows_in_avro_are_read_by_their_schema() -> None:
    """The rows have nested, null, decimal and temporal values."""
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


def test_records_in_avro_have_names_of_their_own() -> None:
    """The record `a_b` differs from the record `b` in `a`."""
    one = t.StructType([t.StructField("x", t.LongType())])
    two = t.StructType([t.StructField("y", t.StringType())])
    struct = t.StructType([t.StructField("a_b", two), t.StructField("a", t.StructType([t.StructField("b", one)]))])
    schema = schema_of(struct)
    row = {"a_b": {"y": "z"}, "a": {"b": {"x": 1}}}
    assert fastavro.schemaless_reader(io.BytesIO(encoded(schema, row)), schema, None) == row
    for name in ("user id", "1st", "é", ""):
        with pytest.raises(click.ClickException, match="valid Avro field name"):
            schema_of(t.StructType([t.StructField("a", t.StructType([t.StructField(name, t.LongType())]))]))
