"""Findings of `pybroker doctor` about settings, machines and files. The checks are pure, or read small trees of
files."""

from __future__ import annotations

import os
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.cli.doctor import disk_checks, machine_checks, setting_checks
from pybroker.cli.doctor.address_checks import ports
from pybroker.cli.doctor.broker_checks import _differences, of_topics
from pybroker.cli.doctor.doctor_command import effective_settings
from pybroker.cli.doctor.finding import Finding, FindingState, bad, ok, warn, worst
from pybroker.config import load_config
from tests.support.wire import free_port


def said(findings: object, state: FindingState) -> list[str]:
    return [each.says for each in findings if each.state is state]  # type: ignore[attr-defined]


def of_settings(*, brokers: int = 1, **given: str) -> list[Finding]:
    named = {name.replace("_", "."): text for name, text in given.items()}
    return list(setting_checks.check({**effective_settings(load_config().config), **named}, brokers=brokers))


def test_a_plain_start_is_in_order() -> None:
    assert worst(of_settings()) is FindingState.OK


@pytest.mark.parametrize(
    ("given", "brokers", "state", "part"),
    [
        ({"log_flush_mode": "os"}, 1, FindingState.BAD, "log.flush.mode=os with one replica"),
        ({"log_flush_mode": "os"}, 3, FindingState.BAD, "log.flush.mode=os with one replica"),
        (
            {"default_replication_factor": "3"},
            3,
            FindingState.BAD,
            "min.insync.replicas=1 with default.replication.factor=3",
        ),
        ({}, 3, FindingState.WARN, "default.replication.factor=1"),
        (
            {"default_replication_factor": "2", "min_insync_replicas": "2"},
            3,
            FindingState.WARN,
            "while one broker is down",
        ),
        ({"default_replication_factor": "5", "min_insync_replicas": "2"}, 3, FindingState.BAD, "with 3 brokers"),
        ({"offsets_topic_replication_factor": "1"}, 3, FindingState.WARN, "loses committed offsets"),
        ({"unclean_leader_election_enable": "true"}, 1, FindingState.BAD, "unclean.leader.election.enable=true"),
        ({"delete_topic_delay_ms": "0"}, 1, FindingState.WARN, "cannot be undeleted"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, 1, FindingState.BAD, "every client that connects is accepted"),
        ({"listeners": "PLAINTEXT://:9092"}, 1, FindingState.BAD, "every client that connects is accepted"),
        ({"listeners": "SSL://broker:9092"}, 1, FindingState.BAD, "ssl.client.auth=none"),
        ({"listeners": "SASL_PLAINTEXT://broker:9092"}, 1, FindingState.BAD, "passwords are sent unencrypted"),
        (
            {"listeners": "SASL_PLAINTEXT://broker:9092", "sasl_enabled_mechanisms": "SCRAM-SHA-512"},
            1,
            FindingState.WARN,
            "records are sent unencrypted",
        ),
        ({"listeners": "SASL_SSL://broker:9092"}, 1, FindingState.WARN, "no authorizer is configured"),
        (
            {"listeners": "SSL://:9092", "ssl_client_auth": "required", "advertised_listeners": "SSL://localhost:9092"},
            1,
            FindingState.WARN,
            "advertises localhost",
        ),
        ({"metrics_listener": "0.0.0.0:9308"}, 1, FindingState.WARN, "HTTP without encryption"),
        ({"super_users": "User:admin;User:ANONYMOUS"}, 1, FindingState.BAD, "User:ANONYMOUS"),
        (
            {"authorizer_class_name": "x.StandardAuthorizer", "allow_everyone_if_no_acl_found": "true"},
            1,
            FindingState.WARN,
            "without ACL entries",
        ),
        (
            {"listeners": "BROKERS://10.1.1.1:9", "listener_security_protocol_map": "BROKERS:PLAINTEXT"}
            | {"inter_broker_listener_name": "BROKERS"},
            1,
            FindingState.BAD,
            "can act as a broker",
        ),
    ],
)
def test_settings_that_endanger(given: dict[str, str], brokers: int, state: FindingState, part: str) -> None:
    assert [each for each in said(of_settings(brokers=brokers, **given), state) if part in each]


@pytest.mark.parametrize(
    "given",
    [
        {"listeners": "PLAINTEXT://[::1]:9092,SSL://localhost:9093"},
        {"listeners": "SSL://broker:9092", "ssl_client_auth": "required"},
        {
            "listeners": "A://127.0.0.1:9092,B://127.0.0.1:9093",
            "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
            "advertised_listeners": "A://lb.example:9092,B://lb.example:9092",
        },
    ],
)
def test_settings_that_do_not(given: dict[str, str]) -> None:
    assert worst(of_settings(**given)) is FindingState.OK


def test_a_listener_that_is_no_address_is_told() -> None:
    assert said(of_settings(listeners="NOPE"), FindingState.BAD) == ["expected NAME://host:port, found 'NOPE'"]


def test_open_files(tmp_path: Path) -> None:
    few, enough = list(machine_checks.open_files({}, 10, 1024)), list(machine_checks.open_files({}, 10, 1 << 20))
    assert said(few, FindingState.BAD) == [
        "at most 1,024 open files (ulimit -Hn); 10,000 connections (max.connections) and 10 partitions may need 11,040"
    ]
    assert worst(enough) is FindingState.OK
    assert worst(machine_checks.open_files({"max.connections": "100"}, 10, 20_000)) is FindingState.WARN
    (tmp_path / "nr_open").write_text("2048\n")
    assert worst(machine_checks.open_files({}, 0, -1, tmp_path / "nr_open")) is FindingState.BAD
    assert said(machine_checks.open_files({}, 0, -1, tmp_path / "none"), FindingState.OK) == ["no limit"]


@pytest.mark.parametrize(
    ("swap", "swappiness", "huge", "states"),
    [
        (0, 60, "always [madvise] never", [FindingState.OK, FindingState.OK]),
        (4096, 60, "[always] madvise never", [FindingState.WARN, FindingState.WARN]),
        (4096, 1, "always madvise [never]", [FindingState.OK, FindingState.OK]),
    ],
)
def test_memory(tmp_path: Path, swap: int, swappiness: int, huge: str, states: list[FindingState]) -> None:
    for path, text in (
        ("proc/meminfo", f"MemTotal: 1 kB\nSwapTotal:       {swap} kB\n"),
        ("proc/sys/vm/swappiness", f"{swappiness}\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", huge),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert [each.state for each in machine_checks.memory(tmp_path / "proc", tmp_path / "sys")] == states
    assert list(machine_checks.memory(tmp_path / "no", tmp_path / "no")) == []


def test_clock(tmp_path: Path) -> None:
    file = tmp_path / "meta.properties"
    file.touch()
    os.utime(file, (2e9, 2e9))
    assert worst(machine_checks.clock([file], 2e9, lambda: False)) is FindingState.OK
    assert worst(machine_checks.clock([file], 2e9, lambda: None)) is FindingState.OK
    assert worst(machine_checks.clock([file], 2e9, lambda: True)) is FindingState.WARN
    assert said(machine_checks.clock([file], 2e9 - 1000, lambda: False), FindingState.BAD) == [
        f"{file} has a modification time 1,000 s in the future: the clock was set back"
    ]
    assert said(machine_checks.clock([], 0.0), FindingState.BAD) == ["the clock shows 1970-01-01"]


@pytest.mark.parametrize(
    ("kind", "options", "state"),
    [
        ("ext4", "rw,relatime", FindingState.OK),
        ("ext4", "rw,nobarrier", FindingState.BAD),
        ("ext4", "rw,data=writeback", FindingState.BAD),
        ("tmpfs", "rw", FindingState.BAD),
        ("nfs4", "rw", FindingState.BAD),
        ("overlay", "rw", FindingState.WARN),
    ],
)
def test_file_systems(
    tmp_path: Path, kind: str, options: str, state: FindingState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_checks, "TEMPORARY", ())
    data = tmp_path / "with blank"
    data.mkdir()
    mounts = tmp_path / "mountinfo"
    point = str(data).replace(" ", "\\040")
    mounts.write_text(f"1 0 8:1 / / rw - xfs /dev/a rw\n2 1 8:2 / {point} rw shared:1 - {kind} /dev/b {options}\n")
    found = [each for each in disk_checks.disks([str(data / "new")], mounts) if each.what == disk_checks.FILE_SYSTEM]
    assert [each.state for each in found] == [state]


def test_directories_on_one_disk_and_in_temporary_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_checks, "TEMPORARY", (tmp_path,))
    found = said(disk_checks.disks([str(tmp_path / "a"), str(tmp_path / "b")]), FindingState.WARN)
    assert [each for each in found if "share one disk" in each]
    assert [each for each in found if "clean" in each]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_checks, "FREE_BYTES_MIN", 1 << 62)
    findings = disk_checks.disks([str(tmp_path)])
    assert [finding.what for finding in findings if finding.state is FindingState.BAD] == [disk_checks.DISK]


def test_a_disk_without_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = os.statvfs_result((4096, 4096, 1 << 30, 1 << 29, 1 << 29, 1000, 40, 40, 0, 255))
    monkeypatch.setattr(disk_checks.os, "statvfs", lambda _: room)
    found = [each.says for each in disk_checks.disks([str(tmp_path)]) if each.what == disk_checks.DISK]
    assert found[1].endswith("40 of 1,000 inodes free")


def test_rights(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    data.mkdir()
    file.write_text(
        f"log.dirs={data}\nlisteners=A://127.0.0.1:0\nlistener.security.protocol.map=A:SASL_PLAINTEXT\n"
        "listener.name.a.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="secret";\n'
    )
    file.chmod(0o600)
    config = load_config(file).config
    assert worst(disk_checks.rights(str(file), config)) is FindingState.OK
    file.chmod(0o644)
    data.chmod(0o777)
    found = said(disk_checks.rights(str(file), config), FindingState.BAD)
    assert len(found) == 2
    assert "can be changed by every user" in found[0]
    assert "settings file with passwords" in found[1]
    assert "secret" not in str(found)


@pytest.fixture
def public_place() -> Iterator[Path]:
    """Return a directory that every user can enter, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


def test_data_that_others_may_read(public_place: Path) -> None:
    """Files of an older release or of Apache Kafka keep the modes with which they were created."""
    data = public_place / "data"
    data.mkdir()
    data.chmod(0o755)
    for name, mode in (("metadata.db", 0o644), ("meta.properties", 0o600), ("t-0", 0o755), ("g-0", 0o750)):
        place = data / name
        place.mkdir() if name.endswith("-0") else place.touch()
        place.chmod(mode)

    def of(**given: str) -> list[str]:
        settings = {"log.dirs": str(data)} | {name.replace("_", "."): text for name, text in given.items()}
        found = list(disk_checks.rights(None, load_config(settings=settings).config))
        assert said(found, FindingState.BAD) == []
        return said(found, FindingState.WARN)

    assert of() == [
        f"{data}: every user of this machine can read 3 of its files and directories (g-0, metadata.db, t-0)"
    ]
    assert of(log_dirs_group_access="read") == [
        f"{data}: every user of this machine can read 2 of its files and directories (metadata.db, t-0)"
    ]
    (data / "metadata.db").chmod(0o600)
    (data / "t-0").chmod(0o700)
    assert of(log_dirs_group_access="write") == []
    (data / "t-0").chmod(0o755)
    data.chmod(0o700)
    assert of() == [], "nobody enters"


def test_ids(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for place, cluster in ((first, "one"), (second, "two")):
        place.mkdir()
        (place / "meta.properties").write_text(f"version=0\nbroker.id=1\ncluster.id={cluster}\n")
    store = first / "metadata.db"
    with sqlite3.connect(store) as made:
        made.execute("CREATE TABLE node (parent TEXT, name TEXT, data BLOB)")
        made.execute("INSERT INTO node VALUES ('/cluster', 'id', ?)", (b'{"version":"1","id":"three"}',))
    made.close()
    config = load_config(settings={"log.dirs": f"{first},{second}"}).config
    (says,) = said(disk_checks.ids(config), FindingState.BAD)
    assert [each for each in ("to one", "to two", "to three") if each in says] == ["to one", "to two", "to three"]
    other = load_config(settings={"log.dirs": str(first), "node.id": "7"}).config
    (says,) = said(disk_checks.ids(other), FindingState.BAD)
    assert "belongs to broker 1, this is broker 7" in says
    store.unlink()
    (says,) = said(disk_checks.ids(other), FindingState.BAD)
    assert "is missing" in says


def test_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        free = free_port()
        config = load_config(
            settings={
                "listeners": f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{free}",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": "x",
                "ssl.keystore.certificate.chain": "x",
                "metrics.listener": "192.0.2.1:9308",
            }
        ).config
        found = list(ports(config))
    assert [each.state for each in found] == [FindingState.BAD, FindingState.OK, FindingState.BAD]
    assert "address already in use" in found[0].says
    assert "cannot assign requested address" in found[2].says


def test_topics_against_their_replicas() -> None:
    factors = {"one": 1, "weak": 3, "stiff": 2, "good": 3, "risky": 3}
    wanted = {name: {setting_checks.MIN_ISR: "2", setting_checks.UNCLEAN: "false"} for name in factors}
    wanted["weak"][setting_checks.MIN_ISR] = "1"
    wanted["risky"][setting_checks.UNCLEAN] = "true"
    found = list(of_topics(factors, wanted))
    assert [(each.state, each.topics) for each in found] == [
        (FindingState.WARN, ("one",)),
        (FindingState.BAD, ("weak",)),
        (FindingState.WARN, ("stiff",)),
        (FindingState.BAD, ("risky",)),
    ]
    many = list(of_topics({f"t{index}": 1 for index in range(7)}, {}))
    assert many[0].says == "7 topics with one replica: t0, t1, t2, t3, t4, … and 2 more"


def test_brokers_that_differ() -> None:
    found = list(_differences({1: {"min.insync.replicas": "2"}, 2: {"min.insync.replicas": "2"}, 3: {}}))
    assert [each.says for each in found] == ["min.insync.replicas differs: 2 on 1,2; (none) on 3"]


def test_the_worst_counts() -> None:
    assert worst([]) is FindingState.OK
    assert worst([ok("a", "b"), warn("a", "b", "c")]) is FindingState.WARN
    assert worst([bad("a", "b", "c"), warn("a", "b", "c")]) is FindingState.BAD
