"""What a user may say, and what is said to one who mistyped it."""

from __future__ import annotations

import re

import pytest

from pybroker.native import BlockingClient
from pybroker.spark.errors import OptionError
from pybroker.spark.options import CLIENT, COLUMNS, read_options, write_options

HERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(**options: str) -> object:
    return read_options({**HERE, "subscribe": "t", **options}, streaming=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.comression.type": "lz4"}, "did you mean kafka.compression.type?"),
        ({"columns": "key,valeu"}, "did you mean value?"),
        ({"columns": "key,key"}, "named twice"),
        ({"assign": '{"t": [0]}'}, "exactly one of"),
        ({"startingOffsets": "first"}, "earliest or offsets as JSON"),
        ({"startingOffsets": '{"t": 5}'}, "an object like"),
        ({"startingOffsets": "{"}, "startingOffsets: "),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"endingOffsets": "earliest"}, "latest or offsets as JSON"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"onTopicRecreated": "ignore"}, "fail, earliest, continue"),
        ({"maxOffsetsPerTrigger": "0"}, "above 0"),
        ({"maxTriggerDelay": "soon"}, "a time like"),
        ({"kafka.group.id": "g"}, "groupId"),
        ({"path": "/x"}, "path=/x: there is no path here"),
    ],
)
def test_a_mistake_in_a_read_is_named(options: dict[str, str], told: str) -> None:
    """Unknown names come with the nearest one."""
    with pytest.raises(OptionError, match=re.escape(told)):
        read(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "needs the option topic"),
        ({"topic": "t", "mode": "once"}, "exactly-once, append"),
        ({"topic": "t", "mode": "append", "ingestId": "a"}, "no meaning"),
        ({"topic": "t", "subscribe": "t"}, "there is no option subscribe"),
    ],
)
def test_a_mistake_in_a_write_is_named(options: dict[str, str], told: str) -> None:
    """The same for writes."""
    with pytest.raises(OptionError, match=re.escape(told)):
        write_options({**HERE, **options})


def test_bootstrap_servers_are_needed() -> None:
    """Before anything is connected."""
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        read_options({"subscribe": "t"}, streaming=False)


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    """A batch reads everything, a stream what is new; headers only when asked for."""
    batch = read_options({**HERE, "subscribe": "a, b"}, streaming=False)
    assert batch.subscription.names == ("a", "b")
    assert (batch.start.word, batch.end.word, batch.fail_on_data_loss) == ("earliest", "latest", True)
    assert batch.columns == tuple(name for name in COLUMNS if name != "headers")
    stream = read_options({**HERE, "SUBSCRIBEPATTERN": "a.*", "INCLUDEHEADERS": "true"}, streaming=True)
    assert stream.subscription.pattern == "a.*"
    assert (stream.start.word, stream.columns) == ("latest", COLUMNS)


def test_a_time_for_all_is_stronger_than_times_by_partition_and_these_than_offsets() -> None:
    """The order of Spark's source."""
    offsets, times = '{"t": {"0": 5, "1": -2}}', '{"t": {"0": 1000}}'
    given = {**HERE, "assign": '{"t": [0, 1]}', "startingOffsets": offsets}
    assert read_options(given, streaming=False).start.offsets == {"t": {0: 5, 1: -2}}
    given["startingOffsetsByTimestamp"] = times
    assert read_options(given, streaming=False).start.timestamps == {"t": {0: 1000}}
    given["startingTimestamp"] = "7"
    assert read_options(given, streaming=False).start.timestamp_ms == 7


def test_settings_without_effect_are_accepted_and_not_handed_on() -> None:
    """A user's options for the Java producer keep working."""
    options = write_options({**HERE, "topic": "t", "kafka.linger.ms": "20", "kafka.batch.size": "1000"})
    assert options.client == {"bootstrap.servers": "127.0.0.1:9092", "batch.size": "1000"}
    assert options.exactly_once


def test_what_spark_adds_to_a_streaming_sink_is_accepted() -> None:
    """`queryName(…)` and `checkpointLocation` arrive among the sink's options, in lower case."""
    given = {**HERE, "topic": "t", "queryname": "copy", "checkpointlocation": "/checkpoints/copy"}
    assert write_options(given).topic == "t"


def test_every_client_setting_is_read_by_the_native_client() -> None:
    """The table of names and the code that reads them do not drift apart."""
    numeric = {name for name in CLIENT if name.endswith((".ms", ".size", ".memory", ".bytes", ".level", ".connection"))}
    assert len(numeric) > 8
    for name in sorted(numeric):
        codec = {"compression.type": "gzip"} if "gzip" in name else {"compression.type": "zstd"}
        with pytest.raises(Exception, match=re.escape(name)):
            BlockingClient({"bootstrap.servers": "127.0.0.1:1", **codec, name: "many"})
