"""The driver's own requests while brokers close idle connections, are down for a while, or stay down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import pybroker.spark
from pybroker.native import NativeError
from pybroker.spark import ingest_steps
from pybroker.spark.batch_writer import BatchWriter
from pybroker.spark.cluster_requests import SparkCluster
from pybroker.spark.source import DefaultSource
from pybroker.spark.source_errors import IngestError, OptionError
from pybroker.spark.source_options import read_options, write_options
from pybroker.spark.stream_reader import StreamReader
from pybroker.spark.stream_writer import StreamWriter
from tests.clients.confluent import Confluent
from tests.conftest import StartBroker

AWAY_S = 1.0
WAIT_S = 120.0


def reader(bootstrap: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "t", "startingOffsets": "earliest", **options}
    return StreamReader(read_options(given, streaming=True), DefaultSource(given).schema())


def _writers(bootstrap: str) -> list[Callable[[], object]]:
    """Create writers as Spark does: the creation requests the topic from the broker, and a batch writer also begins an
    ingest."""
    schema = DefaultSource({"kafka.bootstrap.servers": bootstrap, "subscribe": "t", "columns": "value"}).schema()
    options = write_options({"kafka.bootstrap.servers": bootstrap, "topic": "t"})
    return [lambda: BatchWriter(options, schema), lambda: StreamWriter(options, schema)]


def test_a_stream_outlives_the_brokers_limit_of_idle_connections(start_broker: StartBroker) -> None:
    """A query without new records for `connections.max.idle.ms` (10 minutes by default) continues."""
    broker = start_broker({"connections.max.idle.ms": "1000"})
    Confluent(broker.bootstrap).create_topic("t", 1)
    stream = reader(broker.bootstrap, **{"kafka.delivery.timeout.ms": "1"})
    start = stream.initialOffset()
    also = SparkCluster({"bootstrap.servers": broker.bootstrap})
    (topic,) = also.topics_named(["t"]).values()
    time.sleep(3)
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    assert also.bounds([topic]) == ({(topic.id, 0): 0}, {(topic.id, 0): 0})


def test_a_broker_that_is_away_is_waited_for_by_every_step_of_the_driver(start_broker: StartBroker) -> None:
    """Offsets of a stream that runs and of one that starts, writers, and the begin of an ingest."""
    broker = start_broker()
    Confluent(broker.bootstrap).create_topic("t", 1)
    running = [reader(broker.bootstrap, groupId="g") for _ in range(2)]
    start, _ = [each.initialOffset() for each in running]
    topic_id = next(iter(start["topics"]))
    steps = [
        lambda: running[0].latestOffset(start, ReadAllAvailable()),
        lambda: running[1].commit(start),
        lambda: reader(broker.bootstrap).initialOffset(),
        lambda: reader(broker.bootstrap).prepareForTriggerAvailableNow(),
        lambda: ingest_steps.begin(SparkCluster({"bootstrap.servers": broker.bootstrap}), topic_id, "x", join=True),
        *_writers(broker.bootstrap),
    ]
    broker.kill()
    with ThreadPoolExecutor(len(steps)) as pool:
        waiting = [pool.submit(step) for step in steps]
        time.sleep(AWAY_S)
        gave_up = [number for number, each in enumerate(waiting) if each.done()]
        broker.start()
        assert not gave_up
        for each in waiting:
            each.result(WAIT_S)


def test_a_broker_that_stays_away_fails_each_step_in_bounded_time_and_is_named(start_broker: StartBroker) -> None:
    """The limit is `kafka.delivery.timeout.ms`."""
    broker = start_broker()
    Confluent(broker.bootstrap).create_topic("t", 1)
    limit = {"kafka.delivery.timeout.ms": "1000"}
    stream = reader(broker.bootstrap, **limit)
    start = stream.initialOffset()
    broker.kill()
    begun = time.monotonic()
    with pytest.raises(NativeError, match=f"127.0.0.1:{broker.port}"):
        stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(NativeError, match=f"127.0.0.1:{broker.port}"):
        reader(broker.bootstrap, **limit).initialOffset()
    client = {"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": "1000"}
    with pytest.raises(IngestError, match=f"127.0.0.1:{broker.port}"):
        ingest_steps.begin(SparkCluster(client), next(iter(start["topics"])), "x", join=True)
    # Three times a second, and not three times two minutes, which is the default.
    assert 3 <= time.monotonic() - begun < 90


def test_host_names_that_do_not_resolve_end_a_step_in_seconds() -> None:
    """The driver waits for a broker that is down, but not for a wrong host name, as long as it has reached no
    broker."""
    cluster = SparkCluster({"bootstrap.servers": "nowhere.invalid:9092,no.invalid:9092"}, waits=True)
    began = time.monotonic()
    with pytest.raises(OptionError, match=r"cannot resolve any host name: no\.invalid: ") as told:
        cluster.topics_named(["t"])
    assert time.monotonic() - began < WAIT_S / 2
    assert told.value.__suppress_context__


def test_errors_of_the_source_hide_their_causes() -> None:
    """PySpark shows each cause as a traceback of its own."""
    for path in Path(pybroker.spark.__file__).parent.glob("*.py"):
        assert not re.search(r"\) from (?!None)", path.read_text()), path
