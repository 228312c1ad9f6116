"""`pybroker archive`: the contents of the files, and the command's output."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest

from pybroker.cli.archive.archive_bounds import bound
from pybroker.cli.archive.archive_command import archive
from tests.clients.api import Record
from tests.clients.confluent import Confluent
from tests.spark.commands import Done, run_all
from tests.support.brokers import BrokerProcess

PARTITIONS = 2
UMASK = 0o027
ROWS = 100
SPARK = ("--master", "local[1]", "--json")
LIKE_AN_ID = "customer_orders_archiQ"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the archives."""
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def archives(broker: BrokerProcess, folder: Path) -> dict[str, Done]:
    """All archives of this file: of 100 records in two partitions, of five records in one of two partitions, and of one
    record."""
    client = Confluent(broker.bootstrap)
    producer = client.producer()
    for topic, partitions in (("archive-all", PARTITIONS), ("archive-half", PARTITIONS), (LIKE_AN_ID, 1)):
        client.create_topic(topic, partitions)
    producer.send("archive-all", [Record(number % PARTITIONS, f"k{number}", f"v{number}") for number in range(ROWS)])
    producer.send("archive-half", [Record(0, None, f"v{number}") for number in range(5)])
    producer.send(LIKE_AN_ID, [Record(0, None, "v")])
    # The machine's time zone is 14 hours ahead: interpreted in that zone, this time would be in the future.
    soon = dt.datetime.fromtimestamp(time.time() - 3600, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")

    def run(dest: str, *more: str, topic: str = "archive-half") -> tuple[str, ...]:
        return ("archive", topic, dest if "/" in dest else str(folder / dest), *SPARK, *more)

    some = json.dumps({"archive-half": {"0": 3, "1": 0}})
    usual = os.umask(UMASK)
    try:
        return run_all(
            broker,
            {
                "all": run("all", topic="archive-all"),
                "name": run(f"file://{folder}/name", topic=LIKE_AN_ID),
                "there": run(f"file://{folder}/name", topic=LIKE_AN_ID),
                "idle": run("half", "--from", soon),
                "none": run("half", "--mode", "append", "--to", soon),
                "some": run("half", "--mode", "append", "--from", some),
                "no topic": run("no", topic="archive-nothing"),
                "no id": run("no", topic=LIKE_AN_ID[::-1]),
                "/proc": run("/proc/nope/x"),
                "foo://": run("foo://bucket/x"),
                "backwards": run("no", "--from", "2026-12-01", "--to", "2026-11-01"),
                "no time": run("no", "--from", "2026-12-01", "--to", "2026-12-01T01:00:00+01:00"),
                "noon": run("no", "--from", "noon"),
                "one": run("one", "--from", '{"archive-half": {"0": 1}}'),
                "beyond": run("beyond", "--to", '{"archive-half": {"0": 9, "1": 0}}'),
            },
            "Pacific/Kiritimati",
        )
    finally:
        os.umask(usual)


def test_an_archive_can_be_read_by_those_whom_the_umask_allows(archives: dict[str, Done], folder: Path) -> None:
    assert archives["all"].code == 0
    paths = [folder / "all", *(folder / "all").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o750}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o640}


def _parts(done: Done) -> list[tuple[object, ...]]:
    return [(each["partition"], each["first"], each["last"], each["rows"]) for each in done.told["partitions"]]


def test_an_archive_holds_every_record_and_where_it_came_from(archives: dict[str, Done], folder: Path) -> None:
    """Parquet with lineage columns; the summary has the offsets."""
    assert _parts(archives["all"]) == [(0, 0, 49, 50), (1, 0, 49, 50)]
    rows = sorted(pq.read_table(folder / "all").to_pylist(), key=lambda row: (row["_partition"], row["_offset"]))
    assert [row["_offset"] for row in rows] == [*range(50), *range(50)]
    assert {row["_topic_id"] for row in rows} == {archives["all"].told["topic_id"]}
    assert sorted(row["value"] for row in rows) == sorted(f"v{number}".encode() for number in range(ROWS))
    assert all(row["_cluster_id"] and isinstance(row["_timestamp"], dt.datetime) for row in rows)


def test_a_partition_without_records_of_that_time_adds_nothing(archives: dict[str, Done]) -> None:
    """`--from` and `--to` are in UTC, whatever the machine's time zone."""
    assert _parts(archives["idle"]) == [(0, 0, 4, 5), (1, None, None, 0)]
    assert _parts(archives["none"]) == [(0, None, None, 0), (1, None, None, 0)]


def test_the_summary_counts_what_the_run_wrote(archives: dict[str, Done], folder: Path) -> None:
    """Earlier contents of the folder do not count."""
    assert _parts(archives["some"]) == [(0, 3, 4, 2), (1, None, None, 0)]
    assert pq.read_table(folder / "half").num_rows == 5 + 2


def test_a_topic_may_have_a_name_like_an_id(archives: dict[str, Done], folder: Path) -> None:
    """The destination may be a URL."""
    assert _parts(archives["name"]) == [(0, 0, 0, 1)]
    assert (folder / "name").is_dir()


def test_mistakes_are_one_line(archives: dict[str, Done], folder: Path) -> None:
    """Errors repeat the user's input."""
    assert archives["there"].line().startswith(f"file://{folder}/name already exists; use --mode append to add to it")
    assert archives["no topic"].line().startswith("there is no topic archive-nothing in cluster")
    assert archives["no id"].line().startswith(f"there is no topic {LIKE_AN_ID[::-1]} in cluster")
    assert archives["/proc"].line().startswith("/proc/nope/x: Mkdirs failed to create /proc/nope/x")
    assert archives["foo://"].line() == 'foo://bucket/x: No FileSystem for scheme "foo"'
    assert "'--from': noon: expected earliest, an ISO time" in archives["noon"].line(2)
    first = "2026-12-01T00:00:00+00:00"
    assert archives["backwards"].line() == f"--from {first} is not before --to 2026-11-01T00:00:00+00:00"
    assert archives["no time"].line() == f"--from {first} is not before --to {first}"
    assert archives["one"].line().endswith("--from: archive-half partition 1 is subscribed but has no offset")
    beyond = "has offsets 0 to 5, requested are 0 to 9; --from and --to must lie within them"
    assert archives["beyond"].line().endswith(beyond)
    assert not [name for name in ("no", "one", "beyond") if (folder / name).exists()], "nothing was read into them"


def _bound(name: str, text: str | None) -> dict[str, str]:
    return bound(None, next(each for each in archive.params if name in each.opts), text)


LATER = {"startingOffsetsByTimestampStrategy": "latest"}


@pytest.mark.parametrize(
    ("text", "option"),
    [
        (None, {}),
        ("earliest", {"startingOffsets": "earliest"}),
        ('{"t": {"0": 5}}', {"startingOffsets": '{"t": {"0": 5}}'}),
        ("1795219200000", {"startingTimestamp": "1795219200000", **LATER}),
        ("2026-11-21T00:00:00+00:00", {"startingTimestamp": "1795219200000", **LATER}),
        ("2026-11-21T01:00:00+01:00", {"startingTimestamp": "1795219200000", **LATER}),
        ("2026-11-21", {"startingTimestamp": "1795219200000", **LATER}),
        ("20261121T000000.5", {"startingTimestamp": "1795219200500", **LATER}),
    ],
)
def test_a_range_is_said_in_several_ways(text: str | None, option: dict[str, str]) -> None:
    """The ranges are given by words, times and offsets; times are in UTC."""
    assert _bound("--from", text) == option


def test_the_end_is_said_in_the_same_ways() -> None:
    """The user omits the word that confirms the end."""
    assert _bound("--to", "latest") == {"endingOffsets": "latest"}
    assert _bound("--to", "2026-11-21") == {"endingTimestamp": "1795219200000"}
    with pytest.raises(click.BadParameter, match="earliest: expected latest, an ISO time"):
        _bound("--to", "earliest")


@pytest.mark.parametrize(
    "text",
    ["{", "{}x", '{"t": 5}', '{"t": {"0": null}}', "[]", "noon", "latest", "20261101", "1795219200", "1960-01-01"],
)
def test_what_may_mean_two_things_is_refused(text: str) -> None:
    """A date without dashes, and seconds, are not milliseconds."""
    with pytest.raises(click.BadParameter):
        _bound("--from", text)
