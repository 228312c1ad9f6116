"""Reads and `mode=append` against Apache Kafka give the same results as Spark's own connector, also over TLS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pybroker.native import BlockingClient, NativeError
from pybroker.protocol.error_codes import ErrorCode
from tests.spark.jobs import OURS, PARTITIONS, SPARKS, Jobs, check_both_ways
from tests.support.brokers import KafkaProcess
from tests.support.certificates import Authority
from tests.support.wire import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1200)

COUNT = 2000


@dataclass(frozen=True)
class Kafka:
    """A broker with three listeners: plaintext, TLS, and TLS with a client certificate."""

    broker: KafkaProcess
    tls: str
    mutual: str
    authority: Authority


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One broker for all tests of this file."""
    folder = tmp_path_factory.mktemp("kafka")
    authority = Authority(folder / "certificates")
    broker = KafkaProcess(folder / "broker")
    tls, mutual = (f"127.0.0.1:{free_port()}" for _ in range(2))
    clients = f"PLAINTEXT://{broker.bootstrap},TLS://{tls},MUTUAL://{mutual}"
    broker.settings.update(
        {
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.identity("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "listener.name.mutual.ssl.client.auth": "required",
        }
    )
    broker.start()
    yield Kafka(broker, tls, mutual, authority)
    broker.kill()


@pytest.fixture
def there(spark: SparkSession, kafka: Kafka) -> Jobs:
    """Jobs against Apache Kafka."""
    return Jobs(spark, kafka.broker.bootstrap)


@pytest.mark.parametrize("codec", ["none", *(pytest.param(each, marks=pytest.mark.slow) for each in ("lz4", "gzip"))])
def test_both_connectors_write_and_read_the_same(there: Jobs, topic: str, codec: str) -> None:
    """Counts, keys, values, the partition of every key and all columns, in all four combinations."""
    check_both_ways(there, topic, COUNT, kafka_compression_type=codec)
    found = there.client.read(f"{topic}-ours", PARTITIONS, COUNT)
    assert sorted(each.value or "" for each in found) == sorted(f"v-{number}" for number in range(COUNT))


def test_streams_run_both_ways(there: Jobs, topic: str, tmp_path: Path) -> None:
    """A stream copies one topic to another with `mode=append`, which creates it, and is restarted in between. Spark's
    connector reads the same records from both topics."""
    source, target = f"{topic}-in", f"{topic}-out"
    there.create(source)
    made = {"createTopic": "true", "topicPartitions": str(PARTITIONS)}
    incoming = there.stream(source, maxOffsetsPerTrigger="700").select("key", "value")
    for tag in ("v", "w"):
        there.write(there.rows(1000, tag), source, SPARKS)
        progress = there.run(incoming, tmp_path / "checkpoint", OURS, **there.sink(target, mode="append", **made))
        assert sum(each["numInputRows"] for each in progress) == 1000
    expected = there.contents(source, SPARKS)
    assert expected.records == 2000
    assert there.contents(target, SPARKS) == expected == there.contents(target)


def test_exactly_once_is_refused_with_what_to_do_instead(there: Jobs, topic: str, tmp_path: Path) -> None:
    """Apache Kafka has no staged ingest: a batch reports that before a task runs, a stream in its first micro-batch."""
    there.create(topic)
    told = "the brokers do not support staged ingest, which mode=exactly-once requires; mode=append works"
    with pytest.raises(Exception, match=told):
        there.write(there.rows(10), topic, mode="exactly-once")
    there.create(f"{topic}-in")
    there.write(there.rows(10), f"{topic}-in")
    with pytest.raises(Exception, match=told):
        there.run(there.stream(f"{topic}-in"), tmp_path / "checkpoint", OURS, **there.sink(topic))
    assert sum(there.client.end_offsets(topic, PARTITIONS).values()) == 0


def _tls(kafka: Kafka) -> dict[str, str]:
    return {
        "kafka_security_protocol": "SSL",
        "kafka_ssl_truststore_type": "PEM",
        "kafka_ssl_truststore_location": str(kafka.authority.certificate),
    }


def test_tls_is_given_in_the_words_of_sparks_connector(
    spark: SparkSession, kafka: Kafka, there: Jobs, topic: str
) -> None:
    """A truststore, and a keystore if the broker requests client certificates (mTLS)."""
    there.create(topic)
    mutual = {
        **_tls(kafka),
        "kafka_ssl_keystore_type": "PEM",
        "kafka_ssl_keystore_location": str(kafka.authority.identity("loader")),
    }
    rows = 0
    for address, options in ((kafka.tls, _tls(kafka)), (kafka.mutual, mutual)):
        jobs = Jobs(spark, address)
        for connector in (OURS, SPARKS):
            jobs.write(jobs.rows(100, connector), topic, connector, **options)
            rows += 100
            assert jobs.read(topic, **options).count() == jobs.read(topic, SPARKS, **options).count() == rows
    assert there.read(topic).select("value").distinct().count() == 200


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.keystore.location", "ssl.ca.location"])
def test_a_file_that_cannot_be_used_is_named_with_its_setting(kafka: Kafka, tmp_path: Path, name: str) -> None:
    """A task's client and the driver report the errors: a missing file, and a file with other contents."""
    empty = tmp_path / "empty.pem"
    empty.write_text("none")
    base = {"bootstrap.servers": kafka.mutual, "security.protocol": "SSL"}
    for path in (tmp_path / "nowhere.pem", empty):
        with pytest.raises(NativeError, match=re.escape(f"kafka.{name}={path}: ")) as told:
            BlockingClient({**base, "ssl.ca.location": str(kafka.authority.certificate), name: str(path)}).cluster_id()
        assert told.value.code == ErrorCode.INVALID_CONFIG


def test_who_cannot_be_trusted_is_said(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """The cases: a broker with a certificate of another CA, and a client without the required certificate."""
    short = {"kafka_request_timeout_ms": "15000", "kafka_delivery_timeout_ms": "15000"}
    stranger = Authority(tmp_path, "stranger")
    other = {**_tls(kafka), "kafka_ssl_truststore_location": str(stranger.certificate)}
    with pytest.raises(Exception, match=f"(?s){kafka.tls}.*UnknownIssuer"):
        Jobs(spark, kafka.tls).read(topic, **other, **short).count()
    with pytest.raises(Exception, match=f"(?s){kafka.mutual}.*[Cc]ertificate"):
        Jobs(spark, kafka.mutual).read(topic, **_tls(kafka), **short).count()
