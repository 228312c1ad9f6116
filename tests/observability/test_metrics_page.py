"""/metrics of a running broker: valid for strict parsers, with the names of Kafka's JMX exporter, limited in size,
documented."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families as families

from pybroker.client import QuotaEntity, blocking
from pybroker.console.queries.metrics_scrape import parse_metrics
from pybroker.testing.child_processes import free_port
from tests.support.brokers import PybrokerProcess
from tests.support.cluster import until
from tests.support.processes import data_threads

ROOT = Path(__file__).parents[2]
LINTED = ("_count non-histogram", "lag_sum non-histogram", 'counter metrics should have "_total" suffix')
"""promtool's complaints about names that are Kafka's."""
LIMITS = {"metrics.topics.max": "3", "metrics.partitions.max": "4"}
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(broker: PybrokerProcess) -> str:
    with urllib.request.urlopen(f"http://{broker.settings['metrics.listener']}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def series(text: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(text)
        for sample in family.samples
    }


def names(text: str) -> set[str]:
    return {sample.name for family in families(text) for sample in family.samples}


def value(broker: PybrokerProcess, name: str, **labels: str) -> float:
    return series(scrape(broker)).get((name, tuple(sorted(labels.items()))), -1)


def create(broker: PybrokerProcess, *topics: confluent.admin.NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics(list(topics)).values():
        future.result(60)


def produce(broker: PybrokerProcess, topic: str, records: int) -> None:
    producer = confluent.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "writer"})
    for number in range(records):
        producer.produce(topic, b"x" * 100, partition=0, key=str(number))
    assert producer.flush(60) == 0


def consume(broker: PybrokerProcess, topic: str, records: int, group: str) -> None:
    """Read this many records and commit."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = confluent.Consumer(settings)
    consumer.subscribe([topic])
    read = []
    while len(read) < records:
        read += consumer.consume(records - len(read), 60)
    consumer.commit(offsets=[confluent.TopicPartition(topic, 0, records)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    """A broker with traffic of all kinds."""
    listener = f"127.0.0.1:{free_port()}"
    broker = PybrokerProcess(tmp_path_factory.mktemp("broker"), {"metrics.listener": listener})
    broker.start()
    try:
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            names = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
            admin.alter_client_quotas({QuotaEntity(client_id=""): dict.fromkeys(names, 1e9)}).all()
        create(broker, confluent.admin.NewTopic("orders", 2, 1))
        produce(broker, "orders", 50)
        consume(broker, "orders", 20, "billing")
        yield broker
    finally:
        broker.end()


def test_strict_readers_can_read_it(broker: PybrokerProcess) -> None:
    text = scrape(broker)
    assert len(list(families(text))) > 100
    assert text.count("# TYPE ") == len(set(re.findall(r"^# TYPE (\S+)", text, re.M))), "a family is in one piece"
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).splitlines()
    assert [line for line in said if line.strip() and not any(known in line for known in LINTED)] == []


def test_the_console_charts_each_request_once(broker: PybrokerProcess) -> None:
    text = scrape(broker)
    shown, charted = series(text), parse_metrics(text)[0]
    for request in ("Produce", "Fetch"):
        name = "kafka_network_requestmetrics_requests_total"
        of_all_versions = sum(
            count for (each, labels), count in shown.items() if each == name and ("request", request) in labels
        )
        assert charted[f"requests: {request}"] == of_all_versions > 0
    assert charted["bytes in"] == shown["kafka_server_brokertopicmetrics_bytesin_total", ()]
    assert charted["bytes out"] == shown["kafka_server_brokertopicmetrics_bytesout_total", ()]


def test_bytes_of_deleted_topics_until_they_are_undeleted(broker: PybrokerProcess) -> None:
    """Data in `deleting/` that can be undeleted; it no longer counts once the removal of the topic is decided."""
    log_dir = str(broker.data_dir.resolve())

    def held() -> float:
        return value(broker, "pybroker_log_dir_deleted_bytes", log_dir=log_dir)

    assert held() == 0
    create(broker, confluent.admin.NewTopic("returning", 1, 1), confluent.admin.NewTopic("purged", 1, 1))
    for topic in ("returning", "purged"):
        produce(broker, topic, 200)
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        ids = {name: one.topic_id for name, one in admin.list_topics().items()}
        admin.delete_topics(["returning", "purged"]).all()
        until(lambda: held() > 2 * 20_000)
        both = held()
        admin.purge_topics([ids["purged"]]).all()
        until(lambda: 20_000 < held() < both)
        admin.undelete_topics([ids["returning"]]).all()
        until(lambda: held() == 0)


def test_topics_requests_and_logs(broker: PybrokerProcess) -> None:
    shown = series(scrape(broker))

    def of(name: str, **labels: str) -> float:
        return shown[name, tuple(sorted(labels.items()))]

    topics = "kafka_server_brokertopicmetrics"
    for name in ("messagesin", "bytesin", "totalproducerequests", "bytesout", "totalfetchrequests"):
        assert of(f"{topics}_{name}_total", topic="orders") > 0, name
        assert of(f"{topics}_{name}_total") >= of(f"{topics}_{name}_total", topic="orders"), name
    assert of(f"{topics}_messagesin_total", topic="orders") == 50
    assert of("kafka_log_log_logendoffset", topic="orders", partition="0") == 50
    assert of("kafka_log_log_size", topic="orders", partition="0") > 5_000
    assert of("kafka_log_log_numlogsegments", topic="orders", partition="1") == 1
    assert of("kafka_cluster_partition_underreplicated", topic="orders", partition="0") == 0
    assert of("kafka_server_socketservermetrics_connection_creation_total", listener="PLAINTEXT") > 0
    assert any(labels for name, labels in shown if name.endswith("requests_total") and ("request", "Produce") in labels)


def test_the_parts_of_a_request_add_up_to_the_whole(broker: PybrokerProcess) -> None:
    until(lambda: value(broker, "kafka_network_requestmetrics_totaltimems_count", request="Produce") > 0)
    shown = series(scrape(broker))
    for request in ("Produce", "Fetch", "OffsetCommit", "JoinGroup"):
        label = (("request", request),)
        prefix = "kafka_network_requestmetrics"
        count = shown[f"{prefix}_totaltimems_count", label]
        parts = ("requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems")
        assert all(shown[f"{prefix}_{part}_count", label] == count for part in parts)
        total = sum(shown[f"{prefix}_{part}_sum", label] for part in parts)
        # Each value is cut to whole microseconds.
        assert shown[f"{prefix}_totaltimems_sum", label] == pytest.approx(total, abs=0.006 * (count + 1)), request
        assert (f"{prefix}_totaltimems", (("quantile", "0.99"), *label)) in shown
    remote = "kafka_network_requestmetrics_remotetimems_sum"
    assert shown[remote, (("request", "JoinGroup"),)] > 0, "members of a group wait for each other"


def test_those_who_have_a_quota(broker: PybrokerProcess) -> None:
    shown = series(scrape(broker))
    of = {
        (name.removeprefix("kafka_server_quota_"), *map(dict(labels).get, ("resource", "user", "clientid")))
        for name, labels in shown
        if "_quota_" in name
    }
    assert {("byte_rate", "Produce", "", "writer"), ("request_time", "Request", "", "writer")} <= of
    assert {("throttle_time", resource, "", "writer") for resource in ("Produce", "Request")} <= of


def test_the_lag_of_groups(broker: PybrokerProcess) -> None:
    place = {"consumergroup": "billing", "topic": "orders", "partition": "0"}
    assert value(broker, "kafka_consumergroup_lag", **place) == 30
    assert value(broker, "kafka_consumergroup_current_offset", **place) == 20
    assert value(broker, "kafka_consumergroup_lag_sum", consumergroup="billing") == 30
    before = value(broker, "kafka_consumergroup_lag_seconds", **place)
    until(lambda: value(broker, "kafka_consumergroup_lag_seconds", **place) > before >= 0)


def test_the_clients_software(broker: PybrokerProcess) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})

    def shown() -> bool:
        client.list_topics(timeout=60)
        labels = [dict(labels) for name, labels in series(scrape(broker)) if name.endswith("metrics_connections")]
        return any("confluent-kafka" in one["clientsoftwarename"] for one in labels)

    until(shown)


def documented_rows() -> list[tuple[str, str]]:
    """Return name and "where" of each metric in docs/metrics.md."""
    return re.findall(r"^\| `([a-z0-9_]+)` \| (\w*) ?\|", (ROOT / "docs/metrics.md").read_text(), re.M)


def test_the_table_of_names_is_whole_and_true(broker: PybrokerProcess) -> None:
    """docs/metrics.md and the metrics of a single broker have the same names; metrics of clusters are marked in the
    page."""
    rows = documented_rows()
    documented = {name for name, _ in rows}
    assert len(documented) == len(rows)
    shown = {re.sub(r"_(bucket)$", "", name) for name in re.findall(r"^# TYPE (\S+)", scrape(broker), re.M)}
    assert shown - documented == set()
    assert documented - shown - {name for name, where in rows if where} == set()


def test_dashboard_and_rules_name_what_there_is(broker: PybrokerProcess) -> None:
    dashboard = json.loads((ROOT / "deploy/grafana/pybroker.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries += [one["query"]["query"] for one in dashboard["templating"]["list"] if isinstance(one["query"], dict)]
    queries += re.findall(r"expr: (.*)", (ROOT / "deploy/prometheus/alerts.yml").read_text())
    named = {name for query in queries for name in re.findall(r"\b(?:kafka|pybroker)_[a-z0-9_]+", query)}
    assert len(named) > 30
    # tests/cluster/test_metrics.py compares the page of a cluster with the same table. tests/quorum/test_sight.py does
    # so with the page of a metadata quorum.
    of_clusters = {name for name, where in documented_rows() if where in ("cluster", "zookeeper", "quorum")}
    assert any(name in of_clusters for name in named)
    named -= of_clusters
    client = AdminClient({"bootstrap.servers": broker.bootstrap})

    def all_there() -> bool:
        # Software has a series as long as somebody is connected.
        client.list_topics(timeout=60)
        return named <= names(scrape(broker))

    until(all_there)


def test_rules() -> None:
    folder = ROOT / "deploy/prometheus"
    for command in (["check", "config", "prometheus.yml"], ["check", "rules", "alerts.yml"]):
        subprocess.run(["promtool", *command], cwd=folder, check=True, capture_output=True)
    tested = ["promtool", "test", "rules", "alerts_test.yml"]
    done = subprocess.run(tested, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_data_thread_has_to_do_with_a_scrape(tmp_path: Path) -> None:
    """The test reads the CPU time of each thread from the kernel: without clients the data threads sleep, even during
    scrapes."""
    broker = PybrokerProcess(tmp_path, {"metrics.listener": f"127.0.0.1:{free_port()}"})
    broker.start()
    try:
        create(broker, confluent.admin.NewTopic("many", 500, 1))
        until(lambda: value(broker, "pybroker_connections") == 0)

        def ran() -> list[list[int]]:
            data = data_threads(broker.pid)
            assert data
            return data

        def at_rest() -> bool:
            return ran() == ran()

        until(at_rest)
        before = ran()
        for _ in range(5):
            assert "kafka_log_log_size" in scrape(broker)
        assert ran() == before
    finally:
        broker.end()


def test_there_are_limits_and_what_they_leave_out_is_shown(tmp_path: Path) -> None:
    settings = {"metrics.listener": f"127.0.0.1:{free_port()}", "metrics.groups.max": "1", **LIMITS}
    broker = PybrokerProcess(tmp_path, settings)
    broker.start()
    try:
        create(broker, *(confluent.admin.NewTopic(f"t{number}", 2, 1) for number in range(5)))
        for number in range(5):
            produce(broker, f"t{number}", 1 + number)
        consume(broker, "t1", 1, "less")
        consume(broker, "t4", 1, "more")
        shown = series(scrape(broker))
        of_topics = [labels for name, labels in shown if name == "kafka_server_brokertopicmetrics_messagesin_total"]
        assert sorted(of_topics) == [(), *(((("topic", f"t{number}"),)) for number in range(3))]
        assert shown["kafka_server_brokertopicmetrics_messagesin_total", ()] == 15
        assert sum(name == "kafka_log_log_size" for name, _ in shown) == 4
        groups = [dict(labels)["consumergroup"] for name, labels in shown if name == "kafka_consumergroup_lag_sum"]
        assert groups == ["more"]
        assert shown["pybroker_lag_groups_left_out", ()] == 1
        assert shown["pybroker_metrics_left_out", (("of", "topics"),)] >= 2
        assert shown["pybroker_metrics_left_out", (("of", "partitions"),)] > 4
    finally:
        broker.end()


def test_a_slow_request_tells_in_json_where_its_time_went(tmp_path: Path) -> None:
    broker = PybrokerProcess(tmp_path, {"log.format": "json", "slow.request.log.ms": "200"})
    broker.start()
    try:
        create(broker, confluent.admin.NewTopic("quiet", 1, 1))
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "client.id": "patient"}
        consumer = confluent.Consumer({**settings, "fetch.wait.max.ms": 300})
        consumer.assign([confluent.TopicPartition("quiet", 0, 0)])

        def slow() -> list[str]:
            consumer.poll(0.1)
            lines = [json.loads(line) for line in broker.log_tail(1000).splitlines() if line.startswith("{")]
            return [one["message"] for one in lines if one["event"] == "slow_request"]

        shape = r"Fetch v\d+ from 127.0.0.1:\d+ took ([\d.]+) ms \(queue .*remote ([\d.]+),.*\"patient\""
        # Other requests are slow, too, on a busy machine.
        until(lambda: any(re.search(shape, line) for line in slow()))
        found = next(filter(None, (re.search(shape, line) for line in slow())))
        assert 200 <= float(found[2]) <= float(found[1])
        consumer.close()
        with socket.create_connection(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))) as browser:
            browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
            until(lambda: '"event": "http_client"' in broker.log_tail(1000))
        assert '"event": "topics_created"' in broker.log_tail(1000)
    finally:
        broker.end()
