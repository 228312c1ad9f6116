"""`pybroker topics|groups|configs|cluster` against a running broker, each call a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.client.blocking import ShareConsumer
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.kit import batch, create, metadata, produce, unique
from tests.wire.client import WireClient

LIMIT_S = 120.0
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


def pybroker(*arguments: str, stdin: str = "") -> Done:
    command = [sys.executable, "-m", "pybroker", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    """Run a command with the broker's address. It must succeed unless `code` says otherwise."""

    def command(*arguments: str, code: int = 0, stdin: str = "") -> Done:
        done = pybroker(*arguments, "--bootstrap-server", broker.bootstrap, stdin=stdin)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return command


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Run a command with --json; return the output."""
    return lambda *arguments: json.loads(run(*arguments, "--json").stdout)


@pytest.mark.checklist(32, 139, 140)
def test_a_topic_is_created_shown_and_deleted_by_name(run: Run, ask: Callable[..., Any]) -> None:
    name = unique("by-name")
    made = run("topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1000")
    (shown,) = ask("topics", "--describe", "--topic", name)
    topic_id = shown["topic_id"]
    assert made.stdout == f"Created topic {name} with id {topic_id}.\n"
    assert (shown["topic"], shown["internal"], shown["configs"]) == (name, False, {"retention.ms": "1000"})
    assert [(each["partition"], each["leader"], each["replicas"]) for each in shown["partitions"]] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]
    head, first, second = run("topics", "--describe", "--topic", name).stdout.splitlines()
    assert head == (
        f"Topic: {name}\tTopicId: {topic_id}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=1000"
    )
    assert first == f"\tTopic: {name}\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1"
    assert str(Uuid.parse(topic_id)) == topic_id
    assert second.startswith(f"\tTopic: {name}\tPartition: 1\t")
    said = run("topics", "--delete", "--topic", name).stdout
    assert said.startswith(f"Deleted topic {name} with id {topic_id}. Until 20")
    assert said.endswith(f" `pybroker topics undelete {topic_id}` brings it back.\n")
    assert name not in run("topics", "--list").stdout.splitlines()


@pytest.mark.checklist(141, 190, "D27", "X8")
@pytest.mark.parametrize("option", ["--topic-id", "--topic_id"])
def test_a_topic_is_shown_and_deleted_by_id(
    run: Run, ask: Callable[..., Any], broker: BrokerProcess, option: str
) -> None:
    name, other = unique("by-id"), unique("other")
    with WireClient(broker.port) as client:
        topic_id, _ = create(client, name).topic_id, create(client, other)
        for notation in (str(topic_id), topic_id.hex):
            (shown,) = ask("topics", "--describe", option, notation)
            assert (shown["topic"], shown["topic_id"]) == (name, str(topic_id))
        # If both are given, the id counts, and the output says so.
        both = run("topics", "--describe", option, str(topic_id), "--topic", other)
        assert f"Topic: {name}\t" in both.stdout
        assert other not in both.stdout
        assert both.stderr == "Both --topic and --topic-id are given; only the id is used.\n"
        refused = run("topics", "--delete", option, str(topic_id), "--topic", name, code=2)
        assert "not both" in refused.stderr
        run("topics", "--delete", option, str(topic_id))
        run("topics", "--delete", option, str(topic_id), "--if-exists")
        gone = run("topics", "--delete", option, str(topic_id), code=1)
        assert "UNKNOWN_TOPIC_ID" in gone.stderr
        absent = run("topics", "--describe", option, str(topic_id), code=1)
        assert absent.stderr.startswith(f"Error: There is no topic with id {topic_id}: it was deleted at ")
        assert metadata(client, 12, other).topics[0].error_code == 0
    wrong = run("topics", "--describe", option, "not-an-id", code=2)
    assert "expected 22 base64 characters, 32 hex digits or the dashed form" in wrong.stderr


def test_listing_filters_and_hides(run: Run, ask: Callable[..., Any], broker: BrokerProcess) -> None:
    prefix = unique("listed")
    with WireClient(broker.port) as client:
        ids = {name: str(create(client, name).topic_id) for name in (f"{prefix}-a", f"{prefix}-b")}
        while client.call(m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0].error_code:
            pass
    assert run("topics", "--list", "--topic", f"{prefix}-.*").stdout == f"{prefix}-a\n{prefix}-b\n"
    assert ask("topics", "--list", "--topic", f"{prefix}-.*") == [
        {"topic": name, "topic_id": topic_id, "internal": False} for name, topic_id in ids.items()
    ]
    assert "__consumer_offsets" in run("topics", "--list").stdout.splitlines()
    assert "__consumer_offsets" not in run("topics", "--list", "--exclude-internal").stdout.splitlines()
    assert "__consumer_offsets" not in run("topics", "--describe", "--exclude-internal").stdout
    assert [each["topic"] for each in ask("topics", "--describe", "--topic", f"{prefix}-.*")] == list(ids)


def test_what_is_there_already_and_what_is_not(run: Run, ask: Callable[..., Any]) -> None:
    name = unique("twice")
    made = ask("topics", "--create", "--topic", name)
    assert made == {"topic": name, "topic_id": made["topic_id"], "created": True}
    again = run("topics", "--create", "--topic", name, code=1)
    assert again.stderr.startswith("Error: TOPIC_ALREADY_EXISTS")
    assert ask("topics", "--create", "--topic", name, "--if-not-exists") == {**made, "created": False}
    for action in (["--describe"], ["--delete"], ["--alter", "--partitions", "9"]):
        failed = run("topics", *action, "--topic", "absent", code=1)
        assert failed.stderr.startswith("Error: ")
        assert len(failed.stderr.splitlines()) == 1
        run("topics", *action, "--topic", "absent", "--if-exists")
    run("topics", "--alter", "--topic", name, "--partitions", "5")
    assert len(ask("topics", "--describe", "--topic", name)[0]["partitions"]) == 5
    fewer = run("topics", "--alter", "--topic", name, "--partitions", "2", code=1)
    assert "INVALID_PARTITIONS" in fewer.stderr


@pytest.mark.checklist(233, 236, 243, "U11")
def test_a_topic_is_changed_by_id(run: Run, ask: Callable[..., Any]) -> None:
    name = unique("topic")
    old = ask("topics", "create", name)["topic_id"]
    run("topics", "delete", name)
    new = ask("topics", "create", name)["topic_id"]
    changes = ["topics", "alter", "--partitions", "3"], ["configs", "alter", "--add-config", "retention.ms=5000"]
    for command in changes:
        refused = run(*command, "--topic-id", old, code=1)
        assert refused.stderr.startswith("Error: ")
        assert old in refused.stderr
        run(*command, "--topic-id", new)
    absent = run("topics", "alter", "--partitions", "9", "--topic-id", old, "--if-exists")
    assert absent.stdout.startswith("There is no topic")
    assert len(ask("topics", "describe", name)[0]["partitions"]) == 3
    (shown,) = ask("configs", "describe", "--topic-id", new)
    assert (shown["name"], shown["value"]) == ("retention.ms", "5000")


@pytest.mark.checklist(142)
@pytest.mark.parametrize("command", [["topics", "--list"], ["configs", "--describe"], ["groups", "--list"]])
def test_a_way_around_the_brokers_is_refused(command: list[str]) -> None:
    done = pybroker(*command, "--zookeeper", "zk:2181")
    assert done.returncode == 2
    assert "--zookeeper is not supported" in done.stderr
    assert "--bootstrap-server host:port" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["topics", "--topic", "a"], "Missing command: pybroker topics alter|create|"),
        (["topics", "--list", "--create"], "Use only one of --list and --create"),
        (["topics", "--create"], "Missing argument: pybroker topics create NAME (or --topic NAME)"),
        (["topics", "--create", "a", "--topic", "b"], "NAME is given twice: a and --topic b"),
        (["topics", "--list", "--partitions", "3"], "No such option '--partitions'"),
        (["topics", "--create", "--topic", "a", "--config", "x"], "expected KEY=VALUE"),
        (["topics", "--list", "--topic", "("], "not a regular expression"),
        (["topics", "--alter", "--topic", "a"], "alter requires --partitions"),
        (["groups", "--describe"], "Missing argument: pybroker groups describe NAME (or --group NAME)"),
        (["groups", "--reset-offsets", "--group", "g"], "Use exactly one of --to-earliest"),
        (["configs", "--describe"], "No entity given"),
        (["topics", "--delete"], "Missing argument: pybroker topics delete NAME (or --topic NAME, or --topic-id ID)"),
        (["topics", "history"], "Use exactly one: pybroker topics history NAME|ID"),
        (["configs", "--describe", "--entity-type", "brokers", "--entity-name", "b"], "a broker id must be a number"),
        (["configs", "--alter", "--topic", "a"], "alter requires --add-config"),
        (["configs", "--alter", "--topic", "a", "--add-config", "x"], "expected KEY=VALUE"),
        (["topics", "--list", "--command-config", "absent.properties"], "absent.properties cannot be read"),
    ],
)
def test_misuse_is_told_in_one_line(arguments: list[str], part: str) -> None:
    done = pybroker(*arguments)
    assert done.returncode in (1, 2)
    assert part in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_what_is_not_there_is_told_at_once_and_once(run: Run) -> None:
    refused = run("configs", "--describe", "--broker", "7", code=1)
    assert refused.stderr == "Error: There is no broker 7; running brokers: 1.\n"
    refused = run("configs", "--alter", "--broker", "7", "--add-config", "log.retention.ms=1", code=1)
    assert "There is no broker 7" in refused.stderr
    refused = run("topics", "--describe", "--topic-id", str(Uuid.ZERO), code=1)
    assert refused.stderr.startswith(f"Error: INVALID_TOPIC_EXCEPTION: {Uuid.ZERO} is not a topic id")
    gone = unique("absent")
    refused = run("groups", "--reset-offsets", "--group", "g", "--topic", gone, "--to-earliest", code=1)
    assert refused.stderr == f"Error: There is no topic {gone}.\n"
    run("topics", "create", gone)
    where = ("--topic", gone, "--partition")
    refused = run("transactions", "describe-producers", *where, "7", code=1)
    assert refused.stderr == f"Error: Topic {gone} has 1 partitions, numbered from 0.\n"
    run("topics", "delete", gone)
    for command in (
        ("groups", "reset-offsets", "g", "--topic", gone, "--to-earliest"),
        ("transactions", "describe-producers", *where, "0"),
        ("transactions", "find-hanging", "--topic", gone),
    ):
        assert run(*command, code=1).stderr.startswith(f"Error: There is no topic {gone}: it was deleted at ")


def test_nobody_answers(tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("default.api.timeout.ms=500\nrequest.timeout.ms=500\n")
    address = f"127.0.0.1:{free_port()}"
    done = pybroker("topics", "--list", "--bootstrap-server", address, "--command-config", str(settings))
    assert (done.returncode, done.stdout) == (1, "")
    assert address in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_of_topics_and_brokers(run: Run, ask: Callable[..., Any]) -> None:
    name = unique("settings")
    run("topics", "--create", "--topic", name)
    changed = ["--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"]
    told = ask("configs", "--alter", "--topic", name, *changed)
    assert told == {"entity_type": "topic", "entity_name": name, "changed": ["retention.ms", "cleanup.policy"]}
    shown = {each["name"]: each["value"] for each in ask("configs", "--describe", "--topic", name)}
    assert shown == {"retention.ms": "5000", "cleanup.policy": "compact,delete"}
    run("configs", "--alter", "--entity-type", "topics", "--entity-name", name, "--delete-config", "cleanup.policy")
    everything = {each["name"]: each for each in ask("configs", "--describe", "--topic", name, "--all")}
    assert everything["cleanup.policy"]["source"] == "default_config"
    assert everything["retention.ms"]["source"] == "topic_config"
    wrong = run("configs", "--alter", "--topic", name, "--add-config", "retention.ms=soon", code=1)
    assert wrong.stderr.startswith("Error: INVALID_CONFIG")
    default = ["--entity-type", "brokers", "--entity-default"]
    run("configs", "--alter", *default, "--add-config", "log.retention.ms=7000000")
    assert [each["value"] for each in ask("configs", "--describe", *default)] == ["7000000"]
    assert "log.retention.ms" in run("configs", "--describe", "--broker", "1").stdout
    run("configs", "--alter", *default, "--delete-config", "log.retention.ms")


def test_a_broker_says_where_its_data_is_and_what_it_was_started_with(
    ask: Callable[..., Any], broker: BrokerProcess, tmp_path: Path
) -> None:
    """All settings, not only changed ones: --all shows defaults, too, and also a default data directory."""
    shown = {each["name"]: each for each in ask("configs", "--describe", "--broker", "1")}
    assert (shown["log.dirs"]["value"], shown["log.dirs"]["source"]) == (str(broker.data_dir), "static_broker_config")
    assert "num.network.threads" not in shown
    assert "num.network.threads" in {each["name"] for each in ask("configs", "describe", "--broker", "1", "--all")}
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "pybroker", "start", "--set", f"listeners=PLAINTEXT://{address}"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            done = pybroker("configs", "describe", "--broker", "1", "--bootstrap-server", address, "--json")
        finally:
            process.kill()
    (where,) = (each for each in json.loads(done.stdout) if each["name"] == "log.dirs")
    assert (where["value"], where["source"]) == (str(tmp_path / "pybroker-data"), "default_config")


def test_levels_of_loggers_change_while_the_broker_runs(ask: Callable[..., Any]) -> None:
    """Like Kafka's broker-loggers."""
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    told = ask("configs", "--alter", *loggers, "--add-config", "pybroker.broker.dispatch=DEBUG")
    assert told == {"entity_type": "broker_logger", "entity_name": "1", "changed": ["pybroker.broker.dispatch"]}
    levels = {each["name"]: each["value"] for each in ask("configs", "--describe", *loggers)}
    assert levels["pybroker.broker.dispatch"] == "DEBUG"
    ask("configs", "--alter", *loggers, "--delete-config", "pybroker.broker.dispatch")


def test_a_groups_positions_are_shown_and_moved(run: Run, ask: Callable[..., Any], broker: BrokerProcess) -> None:
    name, group = unique("read"), unique("group")
    with WireClient(broker.port) as client:
        topic_id = create(client, name).topic_id
        produce(client, topic_id, batch(*[b"v"] * 10))
    run("groups", "--reset-offsets", "--group", group, "--topic", name, "--to-offset", "4", "--execute")
    shown = ask("groups", "--describe", "--group", group)
    assert shown["state"] == "Empty"
    assert shown["positions"] == [{"topic": name, "partition": 0, "offset": 4, "end": 10, "lag": 6, "member": None}]
    tried = run("groups", "--reset-offsets", "--group", group, "--to-earliest")
    assert "Use --execute" in tried.stderr
    assert ask("groups", "--describe", "--group", group)["positions"][0]["offset"] == 4
    for place, offset in [("--to-latest", 10), ("--to-earliest", 0)]:
        moved = ask("groups", "--reset-offsets", "--group", group, place, "--execute")
        (one,) = moved["positions"]
        assert (one["topic"], one["partition"], one["offset"]) == (name, 0, offset)
    moved = ask("groups", "--reset-offsets", "--group", group, "--to-offset", "99", "--execute")
    assert moved["positions"][0]["offset"] == 10, "kept within what is there"
    assert {"group": group, "state": "Empty", "protocol": "classic"} in ask("groups", "--list")
    assert ask("groups", "--describe", "--group", group, "--members")["members"] == []
    run("groups", "--delete", "--group", group)
    assert group not in {each["group"] for each in ask("groups", "--list")}
    assert "GROUP_ID_NOT_FOUND" in run("groups", "--delete", "--group", group, code=1).stderr


def test_positions_are_moved_as_kafkas_tool_moves_them(
    run: Run, ask: Callable[..., Any], tmp_path: Path, far_east: None
) -> None:
    name, group = unique("moved"), unique("group")
    # The records are from 1970, and retention could remove old ones at any moment.
    run("topics", "create", name, "--partitions", "2", "--config", "retention.ms=-1")
    for partition, times in ((0, [1000, 2000, 3000]), (1, [4000])):
        lines = "".join(json.dumps({"value": "v", "timestamp_ms": at}) + "\n" for at in times)
        run("produce", name, "--json", "--partition", str(partition), stdin=lines)

    def moved(*arguments: str) -> list[tuple[int | None, int]]:
        """Return (old offset, new offset) of each partition."""
        told = ask("groups", "reset-offsets", group, *arguments)
        return [(each["before"], each["offset"]) for each in told["positions"]]

    assert moved("--topic", name, "--to-datetime", "1970-01-01T00:00:02.000+00:00") == [(None, 1), (None, 0)]
    assert moved("--topic", name, "--to-datetime", "1970-01-01T00:00:02.000") == [(None, 1), (None, 0)], "it is UTC"
    assert moved("--topic", f"{name}:0", "--to-offset", "2", "--execute") == [(None, 2)]
    assert moved("--topic", f"{name}:1", "--to-offset", "0", "--execute") == [(None, 0)]
    assert moved("--shift-by", "-1") == [(2, 1), (0, 0)], "kept within what is there"
    assert moved("--to-current", "--all-topics") == [(2, 2), (0, 0)]
    assert moved("--by-duration", "PT1H", "--dry-run") == [(2, 3), (0, 1)]
    plan = tmp_path / "plan.csv"
    plan.write_text(run("groups", "reset-offsets", group, "--shift-by", "1", "--export").stdout)
    assert plan.read_text() == f"{name},0,3\n{name},1,1\n"
    assert moved("--from-file", str(plan), "--execute") == [(2, 3), (0, 1)]
    shown = ask("groups", "describe", group, "--time-lag")["positions"]
    assert [(each["lag"], each["time_lag_ms"]) for each in shown] == [(0, 0), (0, 0)]
    run("groups", "reset-offsets", group, "--topic", f"{name}:0", "--to-offset", "1", "--execute")
    behind, there = ask("groups", "describe", group, "--time-lag")["positions"]
    written = time.time() * 1000 - behind["time_lag_ms"]
    assert written == pytest.approx(2000, abs=120_000)
    assert there["time_lag_ms"] == 0
    run("groups", "delete-offsets", group, "--topic", f"{name}:0")
    assert [each["partition"] for each in ask("groups", "describe", group)["positions"]] == [1]
    assert "no positions for" in run("groups", "delete-offsets", group, "--topic", f"{name}:0", code=1).stderr
    assert "has 2 partitions" in run("groups", "delete-offsets", group, "--topic", f"{name}:5", code=1).stderr
    plan.write_text("a,b\n")
    wrong = run("groups", "reset-offsets", group, "--from-file", str(plan), code=1)
    assert "line 1: expected topic,partition,offset" in wrong.stderr
    assert "PT90S" in run("groups", "reset-offsets", group, "--by-duration", "1h", code=2).stderr
    early = run("groups", "reset-offsets", group, "--to-datetime", "1969-12-31T23:59:59.999", code=2)
    assert "before 1970" in early.stderr
    # In a request, -2 means the start of a partition.
    assert "-2 is not in the range" in run("groups", "reset-offsets", group, "--to-timestamp", "-2", code=2).stderr


def test_share_groups_are_shown_moved_and_deleted(run: Run, ask: Callable[..., Any], broker: BrokerProcess) -> None:
    name, group = unique("jobs"), unique("workers")
    run("topics", "create", name, "--partitions", "2")
    settings = ["--entity-type", "groups", "--entity-name", group]
    run("configs", "--alter", *settings, "--add-config", "share.auto.offset.reset=earliest")
    (own,) = ask("configs", "--describe", *settings)
    assert (own["name"], own["value"]) == ("share.auto.offset.reset", "earliest")
    run("produce", name, "--partition", "1", stdin="one\ntwo\nthree\n")
    with ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe(name)
        for record in consumer:
            if record.value == b"two":
                break
        assert {(each["group"], each["protocol"]) for each in ask("groups", "list")} >= {(group, "share")}
        (member,) = ask("groups", "describe", group, "--members")["members"]
        assert member["partitions"] == [f"{name}-0", f"{name}-1"]
        refused = run("groups", "reset-offsets", group, "--to-earliest", "--execute", code=1)
        assert f"Group {group} has 1 member(s). Stop them" in refused.stderr
        assert run("groups", "describe", group).stdout.startswith(f"Share group {group}: Stable, 1 member(s)\n")

    def positions() -> list[tuple[int, int, int, int]]:
        shown = ask("groups", "describe", group)
        assert shown["state"] == "Empty"
        return [(each["partition"], each["offset"], each["lag"], each["members"]) for each in shown["positions"]]

    assert positions() == [(0, 0, 0, 0), (1, 2, 1, 0)]
    assert "time-lag" in run("groups", "describe", group, "--time-lag", code=2).stderr
    tried = ask("groups", "reset-offsets", group, "--topic", f"{name}:1", "--to-offset", "1")
    assert tried["positions"] == [{"topic": name, "partition": 1, "before": 2, "offset": 1}]
    assert positions() == [(0, 0, 0, 0), (1, 2, 1, 0)]
    run("groups", "reset-offsets", group, "--to-latest", "--execute")
    assert positions() == [(0, 0, 0, 0), (1, 3, 0, 0)]
    assert "whole topics" in run("groups", "delete-offsets", group, "--topic", f"{name}:1", code=1).stderr
    run("groups", "delete-offsets", group, "--topic", name)
    assert positions() == []
    run("groups", "delete", group)
    assert group not in {each["group"] for each in ask("groups", "list")}


@pytest.mark.checklist(279, 305)
def test_the_cluster(run: Run, ask: Callable[..., Any], broker: BrokerProcess) -> None:
    with WireClient(broker.port) as client:
        known = metadata(client, 12).cluster_id
    assert run("cluster", "id").stdout == f"{known}\n"
    shown = ask("cluster", "describe")
    assert (shown["cluster_id"], shown["controller"]) == (known, 1)
    (only,) = shown["brokers"]
    expected = {"broker": 1, "host": "127.0.0.1", "port": broker.port, "rack": None, "controller": True}
    assert only == only | expected | {"state": "running", "store": "connected", "offline_log_dirs": []}
    assert run("cluster", "health").stdout.startswith("healthy: 1 brokers, ")
    assert known in run("cluster", "describe").stdout
    (directory,) = ask("cluster", "log-dirs")
    assert (directory["log_dir"], directory["state"]) == (str(broker.data_dir), "online")
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    assert str(broker.data_dir) in run("cluster", "log-dirs", "--broker", "1").stdout


@pytest.mark.checklist("U13")
def test_a_deletion_on_trial(run: Run, ask: Callable[..., Any]) -> None:
    name = unique("on-trial")
    run("topics", "create", name, "--partitions", "2")
    run("produce", name, stdin="one\ntwo\nthree\n")
    run("consume", name, "--group", f"{name}-readers", "--max", "3")
    run("groups", "reset-offsets", f"{name}-readers", "--topic", name, "--to-earliest", "--execute")
    (shown,) = ask("topics", "describe", name)
    told = ask("topics", "delete", name, "--dry-run")
    assert (told["topic"], told["topic_id"], told["executed"]) == (name, shown["topic_id"], False)
    assert (told["partitions"], told["rows"]) == (2, 3)
    assert told["bytes"] > 0
    assert told["groups"] == [{"group": f"{name}-readers", "state": "Empty", "positions": 2, "lag": 3}]
    assert told["remaining_ms"] == 4 * 3_600_000
    words = run("topics", "delete", "--topic-id", shown["topic_id"], "--dry-run").stdout
    assert "2 partition(s), 3 records" in words
    assert "The topic can be undeleted for 4 h." in words
    assert f"{name}-readers" in words
    assert ask("topics", "list", name), "nothing was changed"
    run("topics", "delete", unique("nobody"), "--dry-run", code=1)

    run("configs", "alter", "--topic", name, "--add-config", "delete.protection.enable=true")
    assert ask("topics", "delete", name, "--dry-run")["protected"] is True
    for verb in ("delete", "truncate"):
        assert "is protected" in run("topics", verb, name, code=1).stderr
    run("produce", name, stdin="four\n")
    run("configs", "alter", "--topic", name, "--add-config", "delete.protection.enable=false")
    run("topics", "truncate", name)
    run("topics", "delete", name)
    waits = next(line for line in run("topics", "deletions").stdout.splitlines() if name in line)
    assert re.search(r"  (4 h|3 h 59 min( \d+ s)?) *$", waits), waits
    assert "There is no topic" in run("topics", "delete", unique("nobody"), "--dry-run", "--if-exists").stdout
