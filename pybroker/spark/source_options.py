"""The user's `.option(…)`s: names and values. A message about a mistyped name contains the most similar known one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pybroker.native import SPARK_SETTINGS
from pybroker.spark import client_settings
from pybroker.spark.client_settings import KAFKA
from pybroker.spark.option_values import INT, LONG, SHORT, flag, number, unknown
from pybroker.spark.source_errors import OptionError
from pybroker.spark.topic_selection import SUBSCRIPTIONS, ReadBound, TopicSelection, bound_of, subscription_of, topic_id

COLUMNS = (
    "key",
    "value",
    "topic",
    "topic_id",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "cluster_id",
)
ENDING = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
READ = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    *ENDING,
    "failOnDataLoss",
    "onTopicRecreated",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "groupId",
    "columns",
)
NEW_TOPIC = ("topicPartitions", "topicReplicationFactor")
WRITE = ("topic", "topicId", "createTopic", *NEW_TOPIC, "mode", "ingestId", "ingestTtlMs", "transactionTimeoutMs")
# Options that Spark itself adds for a streaming sink.
SPARKS = ("checkpointLocation", "queryName")
# The option that load("…"), save("…") and start("…") set.
PATHS = ("path", "paths")
# CREATE TABLE … USING pybroker: Spark 4.2 stores the options, but does not pass them to Python sources.
CATALOG = "provider"
NO_TABLES = (
    "Spark does not pass options of a catalog table to a Python data source: use CREATE TEMPORARY VIEW … USING "
    "pybroker OPTIONS (…), or pass the options in each query, FROM t WITH (…)"
)
POLICIES = ("fail", "earliest", "continue")
MODES = ("exactly-once", "append", "transactions")
TRANSACTION_TIMEOUT_MS = 900_000
"""The longest timeout that brokers allow by default (`transaction.max.timeout.ms`)."""


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read."""

    client: Mapping[str, str]
    subscription: TopicSelection
    start: ReadBound
    end: ReadBound
    columns: tuple[str, ...]
    latest_if_no_timestamp: bool
    fail_on_data_loss: bool
    on_topic_recreated: str
    min_partitions: int
    max_records_per_partition: int
    max_offsets_per_trigger: int
    min_offsets_per_trigger: int
    max_trigger_delay_s: float
    group_id: str | None


@dataclass(frozen=True)
class NewTopicOptions:
    """A topic to create if it is missing; −1: the broker's default."""

    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of a write."""

    client: Mapping[str, str]
    topic: str | None
    topic_id: str | None
    new_topic: NewTopicOptions | None
    exactly_once: bool
    ingest_id: str | None
    ingest_ttl_ms: int
    transactions: bool = False
    """Whether to write exactly once with Kafka's transactions, which works with any broker that has them."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS

    @property
    def one_topic(self) -> bool:
        """Whether all rows go to one topic; otherwise each row contains its topic."""
        return self.topic is not None or self.topic_id is not None


class _ParsedOptions:
    """The user's options. Spark may change the case of their names."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str], others: Iterable[str], direction: str) -> None:
        """others: the options of the other `direction`."""
        if not options or CATALOG in options:
            raise OptionError(NO_TABLES if options else f"kafka.bootstrap.servers is not set ({NO_TABLES})")
        names = {name.lower(): name for name in known}
        elsewhere = {name.lower() for name in others}
        self.values: dict[str, str] = {}
        client: dict[str, str] = {}
        for name, value in options.items():
            low = name.lower()
            if low.startswith(KAFKA):
                client[low.removeprefix(KAFKA)] = str(value)
            elif low in names:
                self.values[names[low]] = str(value).strip()
            elif low in PATHS:
                raise OptionError(f"{low}={value}: paths are not supported; choose topics with options")
            elif low in elsewhere:
                raise OptionError(f"{name} is an option of {direction}")
            else:
                raise OptionError(unknown(name, [*names.values(), *(KAFKA + each for each in SPARK_SETTINGS)]))
        self.client = client_settings.checked(client)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value == "":
            raise OptionError(f"{name} is empty")
        return value

    def number(self, name: str, most: int = LONG) -> int:
        value = self.values.get(name)
        return 0 if value is None else number(name, value, 1, most)

    def flag(self, name: str, default: bool) -> bool:
        return flag(name, self.values.get(name, str(default)))

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.values.get(name, choices[0]).lower()
        if value not in choices:
            raise OptionError(f"{name}={value}: expected one of {', '.join(choices)}")
        return value

    def refuse(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if self.text(name) is not None:
                raise OptionError(f"{name} is not supported {why}")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(name: str, text: str) -> float:
    found = re.fullmatch("([0-9]{1,9}) *([a-z]*)", text)
    if found is None or (found[2] or "ms") not in _UNITS:
        raise OptionError(f"{name}={text}: expected a time such as 30s, 15m or 1h")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def _columns(parsed: _ParsedOptions) -> tuple[str, ...]:
    columns = tuple(each for part in parsed.values.get("columns", "").split(",") if (each := part.strip()))
    for name in columns:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.5)
            raise OptionError(f"columns: unknown column {name}" + (f"; did you mean {near[0]}?" if near else ""))
    if len(set(columns)) != len(columns):
        raise OptionError("columns: a column is listed twice")
    headers = parsed.flag("includeHeaders", "headers" in columns)
    if not columns:
        return tuple(name for name in COLUMNS if headers or name != "headers")
    if headers != ("headers" in columns):
        named = "lists" if "headers" in columns else "does not list"
        raise OptionError(f"includeHeaders={str(headers).lower()}, but columns={','.join(columns)} {named} headers")
    return columns


def read_options(options: Mapping[str, str], *, streaming: bool | None) -> ReadOptions:
    """Check the options of a read. By default, a stream starts at the end of the topics. streaming: None while Spark
    has not said whether the read is a stream.

    Raises OptionError.
    """
    parsed = _ParsedOptions(options, READ, WRITE, "writing")
    if streaming:
        parsed.refuse(ENDING, "for a stream, which has no end")
    start_words = ("earliest",) if streaming is False else ("earliest", "latest")
    return ReadOptions(
        client=parsed.client,
        subscription=subscription_of(parsed.values),
        start=bound_of(parsed.values, "starting", "latest" if streaming else "earliest", start_words),
        end=bound_of(parsed.values, "ending", "latest", ("latest",)),
        columns=_columns(parsed),
        latest_if_no_timestamp=parsed.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        fail_on_data_loss=parsed.flag("failOnDataLoss", True),
        on_topic_recreated=parsed.choice("onTopicRecreated", POLICIES),
        min_partitions=parsed.number("minPartitions"),
        max_records_per_partition=parsed.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=parsed.number("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=parsed.number("minOffsetsPerTrigger"),
        max_trigger_delay_s=_seconds("maxTriggerDelay", parsed.text("maxTriggerDelay") or "15m"),
        group_id=parsed.text("groupId"),
    )


def write_options(options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """Check the options of a write. Raises OptionError."""
    parsed = _ParsedOptions(options, (*WRITE, *SPARKS), READ, "reading")
    mode = parsed.choice("mode", MODES)
    exactly_once = mode == "exactly-once"
    topic, pinned = parsed.text("topic"), parsed.text("topicId")
    if mode != "append" and topic is None and pinned is None:
        raise OptionError(f"mode={mode} requires the option topic or topicId; a column topic works with mode=append")
    if not exactly_once:
        parsed.refuse(("ingestTtlMs",), f"with mode={mode}")
    if mode == "append":
        parsed.refuse(("ingestId",), "with mode=append")
    if mode != "transactions":
        parsed.refuse(("transactionTimeoutMs",), f"with mode={mode}")
    if streaming:
        parsed.refuse(
            ("ingestId",),
            (
                "for a stream: the id of the query (from its checkpoint) and the number of the micro-batch name each "
                "ingest; with a fixed name, a query with a new checkpoint would write nothing"
            ),
        )
    return WriteOptions(
        client=parsed.client,
        topic=topic,
        topic_id=None if pinned is None else topic_id("topicId", pinned),
        new_topic=_new_topic(parsed, topic, pinned),
        exactly_once=exactly_once,
        ingest_id=parsed.text("ingestId"),
        ingest_ttl_ms=parsed.number("ingestTtlMs") or -1,
        transactions=mode == "transactions",
        transaction_timeout_ms=parsed.number("transactionTimeoutMs", INT) or TRANSACTION_TIMEOUT_MS,
    )


def _new_topic(parsed: _ParsedOptions, topic: str | None, pinned: str | None) -> NewTopicOptions | None:
    if not parsed.flag("createTopic", False):
        parsed.refuse(NEW_TOPIC, "without createTopic=true")
        return None
    if pinned is not None:
        raise OptionError("createTopic is not supported with topicId: a new topic gets a new id")
    if topic is None:
        raise OptionError("createTopic requires the option topic")
    partitions, factor = (parsed.number(name, most) for name, most in zip(NEW_TOPIC, (INT, SHORT), strict=True))
    return NewTopicOptions(partitions or -1, factor or -1)
