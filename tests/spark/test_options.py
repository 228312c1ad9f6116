"""The user's options, and the errors for misspelt ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from pybroker.native import SPARK_SETTINGS, BlockingClient, NativeError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.cluster_requests import SparkCluster
from pybroker.spark.source import DefaultSource
from pybroker.spark.source_errors import OptionError
from pybroker.spark.source_options import COLUMNS, NewTopicOptions, read_options, write_options

HERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(**options: str) -> object:
    return read_options({**HERE, "subscribe": "t", **options}, streaming=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.comression.type": "lz4"}, "did you mean kafka.compression.type?"),
        ({"columns": "key,valeu"}, "did you mean value?"),
        ({"columns": "key,key"}, "listed twice"),
        ({"assign": '{"t": [0]}'}, "expected exactly one of"),
        ({"startingOffsets": "first"}, "earliest or offsets as JSON"),
        ({"startingOffsets": '{"t": 5}'}, "an object such as"),
        ({"startingOffsets": "{"}, "startingOffsets={: "),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"endingOffsets": "earliest"}, "latest or offsets as JSON"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"onTopicRecreated": "ignore"}, "fail, earliest, continue"),
        ({"groupId": " "}, "groupId is empty"),
        ({"topicId": "x"}, "topicId is an option of writing"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0: expected a whole number from 1 to"),
        ({"maxTriggerDelay": "soon"}, "a time such as"),
        ({"maxTriggerDelay": "²s"}, "a time such as"),
        ({"kafka.group.id": "g"}, "groupId"),
        ({"path": "/x"}, "path=/x: paths are not supported"),
        ({"minPartitions": str(2**63)}, "from 1 to 9223372036854775807"),
        ({"startingTimestamp": "-1"}, "startingTimestamp=-1: expected a whole number from 0 to 9223372036854775807"),
        ({"endingTimestamp": "99999999999999999999"}, "99999999999999999999: expected a whole number from 0"),
        ({"startingOffsets": '{"t": {"0": 1.7}}'}, "t partition 0: expected a whole number from -2 to 92233"),
        ({"startingOffsets": '{"t": {"0": 1e23}}'}, "got 1e+23"),
        ({"startingOffsets": '{"t": {"0": 9223372036854775808}}'}, "got 9223372036854775808"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "got -3"),
        ({"endingOffsets": '{"t": {"0": true}}'}, "endingOffsets={"),
        ({"startingOffsets": '{"t": {"0": "5"}}'}, 'got "5"'),
        ({"startingOffsets": '{"t": {"00": 5}}'}, "t has no partition 00"),
        ({"startingOffsets": '{"t": {"0": 5, "0": 6}}'}, "a name is listed twice"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "t partition 0: expected a whole number from 0 to"),
        ({"includeHeaders": "banana"}, "includeHeaders=banana: expected true or false"),
        ({"includeHeaders": "banana", "columns": "key"}, "includeHeaders=banana: expected true or false"),
        ({"includeHeaders": "true", "columns": "key"}, "includeHeaders=true, but columns=key does not list headers"),
        ({"includeHeaders": "false", "columns": "headers"}, "includeHeaders=false, but columns=headers lists headers"),
        ({"kafka.request.timeout.ms": "0"}, "kafka.request.timeout.ms=0: expected a whole number from 1 to 2147483647"),
        ({"kafka.batch.size": "abc"}, "kafka.batch.size=abc: expected a whole number from 0"),
        ({"kafka.delivery.timeout.ms": "99999999999999999999"}, "kafka.delivery.timeout.ms=9999999999"),
        ({"kafka.check.crcs": "yes"}, "kafka.check.crcs=yes: expected true or false"),
        ({"kafka.bootstrap.servers": "a:1,foo"}, "foo is not host:port"),
        ({"kafka.bootstrap.servers": "127.0.0.1:99999"}, "127.0.0.1:99999 is not host:port"),
    ],
)
def test_a_mistake_in_a_read_is_named(options: dict[str, str], told: str) -> None:
    """The error for an unknown name contains the nearest known one."""
    with pytest.raises(OptionError, match=re.escape(told)):
        read(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "requires the option topic"),
        ({"topic": "t", "mode": "once"}, "exactly-once, append, transactions"),
        ({"mode": "transactions"}, "mode=transactions requires the option topic or topicId"),
        ({"topic": "t", "mode": "transactions", "ingestTtlMs": "5"}, "ingestTtlMs is not supported with mode=transac"),
        ({"topic": "t", "transactionTimeoutMs": "5"}, "transactionTimeoutMs is not supported with mode=exactly-once"),
        ({"topic": "t", "mode": "append", "ingestId": "a"}, "is not supported"),
        ({"topic": "t", "subscribe": "t"}, "subscribe is an option of reading"),
        ({"topic": "t", "mode": "append", "ingestTtlMs": "5"}, "ingestTtlMs is not supported with mode=append"),
        ({"topic": "t", "ingestTtlMs": "9" * 30}, "from 1 to 9223372036854775807"),
        ({"topic": "t", "topicId": "garbage"}, "topicId: garbage is not a topic id"),
    ],
)
def test_a_mistake_in_a_write_is_named(options: dict[str, str], told: str) -> None:
    """The same holds for writes."""
    with pytest.raises(OptionError, match=re.escape(told)):
        write_options({**HERE, **options})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribePattern": "["}, "subscribePattern=[: unterminated character set"),
        ({"subscribe": " , "}, "subscribe=,: no topic name given"),
        ({"topicIds": "nonsense"}, "topicIds: nonsense is not a topic id"),
        ({"topicIds": "A" * 22}, "is the zero id, which no topic has"),
        ({"assign": "{}"}, "assign={}: expected a JSON object with topic names"),
        ({"assign": '{"b": []}'}, 'assign={"b": []}: expected the partitions of b as a list'),
        ({"assign": '{"b": "01"}'}, 'assign={"b": "01"}: '),
        ({"assign": '{"b": [0, 0]}'}, "distinct numbers"),
        ({"assign": '{"b": [-1]}'}, "numbers from 0"),
        ({"assign": '{"b": [true]}'}, "numbers from 0"),
        ({"assign": '{"b": [0], "b": [1]}'}, "a name is listed twice"),
    ],
)
def test_a_subscription_that_means_nothing_is_named(options: dict[str, str], told: str) -> None:
    """The subscription is refused; it does not mean all partitions, or none."""
    with pytest.raises(OptionError, match=re.escape(told)):
        read_options({**HERE, **options}, streaming=True)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    """As in Spark's source, `load()` does not know yet which kind of read it is."""
    given = {**HERE, "subscribe": "t", name: {"endingOffsets": "latest"}.get(name, "5")}
    source = DefaultSource(given)
    if name != "endingOffsetsByTimestamp":
        schema = source.schema()
        with pytest.raises(OptionError, match=f"{name} is not supported for a stream"):
            source.streamReader(schema)
    with pytest.raises(OptionError, match=f"{name} is not supported for a stream"):
        read_options(given, streaming=True)


def test_a_stream_has_no_ingest_id_of_the_users() -> None:
    """Batch numbers begin again with a new checkpoint: the broker would mistake its batches for the earlier ones."""
    given = {**HERE, "topic": "t", "ingestId": "mine"}
    assert write_options(given).ingest_id == "mine"
    with pytest.raises(OptionError, match=r"ingestId is not supported for a stream: .* new checkpoint"):
        write_options(given, streaming=True)
    with pytest.raises(OptionError, match="ingestId is not supported for a stream"):
        DefaultSource(given).streamWriter(DefaultSource({**HERE, "subscribe": "t"}).schema(), overwrite=False)


def test_a_new_topic_is_as_the_user_or_the_broker_wants_it() -> None:
    """−1 means the broker's default; a topic is created only on request."""
    given = {**HERE, "topic": "t"}
    assert write_options(given).new_topic is None
    assert write_options({**given, "createTopic": "true"}).new_topic == NewTopicOptions(-1, -1)
    asked = {**given, "createtopic": "TRUE", "topicPartitions": "3", "topicReplicationFactor": "2"}
    assert write_options(asked, streaming=True).new_topic == NewTopicOptions(3, 2)


@pytest.mark.parametrize(("text", "delay_s"), [("500", 0.5), ("30s", 30.0), ("15 min", 900.0), ("1h", 3600.0)])
def test_a_delay_has_a_unit_or_is_in_milliseconds(text: str, delay_s: float) -> None:
    """`maxTriggerDelay`, in the manner of Spark."""
    given = {**HERE, "subscribe": "t", "maxTriggerDelay": text}
    assert read_options(given, streaming=True).max_trigger_delay_s == delay_s


def test_the_driver_takes_settings_as_the_native_client_reads_them() -> None:
    """Blanks around a value are ignored, in planning as in tasks."""
    given = {**HERE, "kafka.isolation.level": " read_committed ", "kafka.delivery.timeout.ms": " 5000 "}
    options = read_options({**given, "subscribe": "t"}, streaming=False)
    client = BlockingClient(options.client)
    assert (client.read_committed, client.delivery_timeout_ms) == (True, 5000)
    assert SparkCluster(options.client).patience_s == 5.0
    default = BlockingClient({"bootstrap.servers": "127.0.0.1:9092"})
    assert (default.read_committed, default.delivery_timeout_ms) == (False, 120_000)


@pytest.mark.parametrize("name", ["ssl.truststore.certificates", "ssl.truststore.location"])
@pytest.mark.parametrize("held", ["", "none", "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n"])
def test_trust_without_a_certificate_is_refused(tmp_path: Path, name: str, held: str) -> None:
    """The certificates, inline or in a file, are checked before any request: no broker listens there. An empty list
    would trust no CA."""
    file = tmp_path / "ca.pem"
    file.write_text(held)
    value, shown = (held, "") if name.endswith("certificates") else (str(file), f"={file}")
    client = BlockingClient({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", name: value})
    with pytest.raises(NativeError, match=re.escape(f"kafka.{name}{shown}: there is no certificate in it")) as told:
        client.cluster_id()
    assert told.value.code == ErrorCode.INVALID_CONFIG


def test_bootstrap_servers_are_needed() -> None:
    """Checked before any connection."""
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        read_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is not set \(.*FROM t WITH \(…\)"):
        write_options({})  # of a table in Spark's catalog


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    """A batch reads everything, a stream only new records; headers only on request."""
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


WORDS = ("client.id", "sasl.", "ssl.")


@pytest.mark.parametrize("name", [name for name in SPARK_SETTINGS if not name.startswith(WORDS)])
def test_every_client_setting_is_read_by_the_native_client(name: str) -> None:
    """`WORDS` may have any value."""
    with pytest.raises(OptionError, match=re.escape(f"{name}=many: ")):
        write_options({**HERE, "topic": "t", f"kafka.{name}": "many"})


@pytest.mark.parametrize(
    ("column", "said"),
    [("value string", "column value is read as binary, not as string"), ("row string", "unknown column row")],
)
def test_a_schema_of_the_users_may_only_leave_columns_out(column: str, said: str) -> None:
    """`.schema("…")`, and the columns of a view in SQL."""
    name, kind = column.split()
    with pytest.raises(OptionError, match=said):
        DefaultSource({**HERE, "subscribe": "t"}).reader(StructType().add(name, kind))
