"""What a user may say in `.option(…)`: names, values, and the nearest name for a mistyped one."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pybroker.spark.errors import OptionError

KAFKA = "kafka."
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
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign", "topicIds")
READ = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
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
WRITE = ("topic", "topicId", "mode", "ingestId", "ingestTtlMs")
# What Spark itself adds to the options of a streaming sink.
SPARKS = ("checkpointLocation", "queryName")
# load("…"), save("…") and start("…") with a path.
PATHS = ("path", "paths")
# What native/spark/src/settings.rs reads.
CLIENT = (
    "acks",
    "batch.size",
    "bootstrap.servers",
    "buffer.memory",
    "check.crcs",
    "client.id",
    "compression.gzip.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "fetch.max.wait.ms",
    "isolation.level",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
# Settings of the Java clients that mean nothing here but do no harm: batches are sent when they are full or the rows
# end, a partition is fetched at a time, and retries go on until `delivery.timeout.ms`.
WITHOUT_EFFECT = (
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "linger.ms",
    "max.block.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "send.buffer.bytes",
)
POLICIES = ("fail", "earliest", "continue")
MODES = ("exactly-once", "append")


@dataclass(frozen=True)
class Subscription:
    """Which topics, in one of four ways: exactly one field is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    ids: tuple[str, ...] = ()
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def covers(self, topic_id: str, name: str) -> bool:
        """Whether a topic is meant, be it there or not."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name) is not None
        return topic_id in self.ids or name in self.names or name in self.assigned


@dataclass(frozen=True)
class Bound:
    """Where a read starts or ends: `earliest`, `latest`, a time, or offsets or times by partition."""

    word: str = ""
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamps: Mapping[str, Mapping[int, int]] | None = None


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read."""

    client: Mapping[str, str]
    subscription: Subscription
    start: Bound
    end: Bound
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
class WriteOptions:
    """Checked options of a write."""

    client: Mapping[str, str]
    topic: str | None
    topic_id: str | None
    exactly_once: bool
    ingest_id: str | None
    ingest_ttl_ms: int


class _Given:
    """The user's options; Spark hands their names on in any case."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        names = {name.lower(): name for name in known}
        self.client: dict[str, str] = {}
        self.values: dict[str, str] = {}
        for name, value in options.items():
            low = name.lower()
            if low.startswith(KAFKA):
                self._client_setting(low.removeprefix(KAFKA), value)
            elif low in names:
                self.values[names[low]] = str(value).strip()
            elif low in PATHS:
                raise OptionError(f"{low}={value}: there is no path here; the topics are chosen by options")
            else:
                raise OptionError(_unknown(name, [*names.values(), *(KAFKA + each for each in CLIENT)]))
        if not self.client.get("bootstrap.servers"):
            raise OptionError("the option kafka.bootstrap.servers is missing")

    def _client_setting(self, name: str, value: str) -> None:
        if name in CLIENT:
            self.client[name] = str(value)
        elif name == "group.id":
            raise OptionError("kafka.group.id has no meaning here: groupId=… commits the offsets of a stream for tools")
        elif name not in WITHOUT_EFFECT:
            raise OptionError(_unknown(KAFKA + name, [KAFKA + each for each in (*CLIENT, *WITHOUT_EFFECT)]))

    def text(self, name: str) -> str | None:
        return self.values.get(name) or None

    def number(self, name: str) -> int:
        value = self.values.get(name)
        if value is None:
            return 0
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < 1:
            raise OptionError(f"{name}={value}: a whole number above 0 is needed")
        return number

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name, str(default)).lower()
        if value not in ("true", "false"):
            raise OptionError(f"{name}={value}: true or false is needed")
        return value == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.values.get(name, choices[0]).lower()
        if value not in choices:
            raise OptionError(f"{name}={value}: one of {', '.join(choices)} is needed")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(each for each in (part.strip() for part in self.values.get(name, "").split(",")) if each)


def _unknown(name: str, known: list[str]) -> str:
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f"there is no option {name}" + (f"; did you mean {lower[near[0]]}?" if near else "")


def _json_of(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name}: {error} in {text}") from None
    if not isinstance(value, dict):
        raise OptionError(f'{name}: an object like {{"topic": {{"0": 5}}}} is needed, not {text}')
    return value


def _by_partition(name: str, text: str) -> dict[str, dict[int, int]]:
    try:
        return {
            topic: {int(partition): int(number) for partition, number in places.items()}
            for topic, places in _json_of(name, text).items()
        }
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f'{name}: an object like {{"topic": {{"0": 5}}}} is needed, not {text}') from None


def _bound(given: _Given, prefix: str, default: str, words: tuple[str, ...]) -> Bound:
    """As in Spark's source: one time for all, then times by partition, then offsets; the first that is given."""
    timestamp = given.text(f"{prefix}Timestamp")
    if timestamp is not None:
        try:
            return Bound(timestamp_ms=int(timestamp))
        except ValueError:
            raise OptionError(f"{prefix}Timestamp={timestamp}: milliseconds since 1970 are needed") from None
    name = f"{prefix}OffsetsByTimestamp"
    timestamps = given.text(name)
    if timestamps is not None:
        return Bound(timestamps=_by_partition(name, timestamps))
    name = f"{prefix}Offsets"
    value = given.text(name) or default
    if value.lower() in words:
        return Bound(word=value.lower())
    if not value.startswith("{"):
        raise OptionError(f"{name}={value}: {' or '.join(words)} or offsets as JSON are needed")
    return Bound(offsets=_by_partition(name, value))


def _subscription(given: _Given) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if given.text(name)]
    if len(chosen) != 1:
        said = f"not {' and '.join(chosen)}" if chosen else "none is given"
        raise OptionError(f"exactly one of {', '.join(SUBSCRIPTIONS)} is needed, {said}")
    text = given.values[chosen[0]]
    match chosen[0]:
        case "subscribe":
            return Subscription(names=given.names("subscribe"))
        case "subscribePattern":
            return Subscription(pattern=text)
        case "topicIds":
            return Subscription(ids=given.names("topicIds"))
    try:
        assigned = {topic: tuple(map(int, numbers)) for topic, numbers in _json_of("assign", text).items()}
    except (TypeError, ValueError):
        raise OptionError(f'assign: an object like {{"topic": [0, 1]}} is needed, not {text}') from None
    return Subscription(assigned=assigned)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(name: str, text: str) -> float:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "ms"
    if unit not in _UNITS or not number.isdigit():
        raise OptionError(f"{name}={text}: a time like 30s, 15m or 1h is needed")
    return int(number) * _UNITS[unit]


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Checks the options of a read; a stream starts at the end of the topics unless told otherwise.

    Raises OptionError.
    """
    given = _Given(options, READ)
    columns = given.names("columns")
    for name in columns:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.5)
            raise OptionError(f"columns: there is no column {name}" + (f"; did you mean {near[0]}?" if near else ""))
    if len(set(columns)) != len(columns):
        raise OptionError("columns: a column is named twice")
    if not columns:
        headers = given.flag("includeHeaders", False)
        columns = tuple(name for name in COLUMNS if headers or name != "headers")
    return ReadOptions(
        client=given.client,
        subscription=_subscription(given),
        start=_bound(
            given,
            "starting",
            "latest" if streaming else "earliest",
            ("earliest", "latest") if streaming else ("earliest",),
        ),
        end=_bound(given, "ending", "latest", ("latest",)),
        columns=columns,
        latest_if_no_timestamp=given.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        on_topic_recreated=given.choice("onTopicRecreated", POLICIES),
        min_partitions=given.number("minPartitions"),
        max_records_per_partition=given.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=given.number("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=given.number("minOffsetsPerTrigger"),
        max_trigger_delay_s=_seconds("maxTriggerDelay", given.text("maxTriggerDelay") or "15m"),
        group_id=given.text("groupId"),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Checks the options of a write. Raises OptionError."""
    given = _Given(options, (*WRITE, *SPARKS))
    exactly_once = given.choice("mode", MODES) == "exactly-once"
    topic = given.text("topic")
    if exactly_once and topic is None:
        raise OptionError("mode=exactly-once needs the option topic; a column topic works with mode=append")
    if not exactly_once and given.text("ingestId"):
        raise OptionError("ingestId has no meaning with mode=append")
    return WriteOptions(
        client=given.client,
        topic=topic,
        topic_id=given.text("topicId"),
        exactly_once=exactly_once,
        ingest_id=given.text("ingestId"),
        ingest_ttl_ms=given.number("ingestTtlMs") or -1,
    )
