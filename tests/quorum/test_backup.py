"""Backup and restore of the metadata log, and recovery with the only voter that is left."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from pybroker.broker.quorum.seen_metadata import read_seen, write_seen
from pybroker.client import NewTopic, blocking
from tests.quorum.scene import QuorumBroker, Scene, until
from tests.quorum.test_snapshots import TINY, log_of, snapshots


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, TINY) as scene:
        scene.start()
        until(scene.all_vote)
        yield scene


def quorum(verb: str, broker: QuorumBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {**broker.settings, "log.dirs": str(broker.data_dir)}
    given = [argument for name, value in settings.items() for argument in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "pybroker", "cluster", "quorum", verb, *arguments, *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def refused(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stderr


def create(scene: Scene, prefix: str, count: int = 60) -> set[str]:
    names = {f"{prefix}{number}" for number in range(count)}
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in sorted(names)]).all()
    return names


def topics(broker: QuorumBroker) -> set[str]:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        return set(admin.list_topics())


def seen(broker: QuorumBroker) -> int:
    """Return the offset of the metadata log that a broker has stored as applied."""
    path = broker.data_dir / "quorum-seen"
    return int(json.loads(path.read_text())["offset"]) if path.exists() else -1


def stored_all(broker: QuorumBroker) -> bool:
    """Return whether a broker has stored that it has applied every committed change."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        return seen(broker) >= admin.describe_metadata_quorum().high_watermark


def kill(scene: Scene) -> None:
    for broker in scene.brokers.values():
        broker.kill()


def test_backup_is_restored_after_all_metadata_logs_are_lost(scene: Scene, tmp_path: Path) -> None:
    first = scene.brokers[1]
    before = create(scene, "before")
    until(lambda: len(snapshots(first)) == 2)
    before |= create(scene, "more", 1)
    until(lambda: stored_all(first))
    folder = tmp_path / "backup"
    folder.mkdir()
    report = json.loads(done(quorum("backup", first, str(folder), "--json")))
    made = Path(report["path"])
    assert {path.name for path in folder.iterdir()} == {made.name, f"{made.name}.json"}
    assert int(made.name[:20]) == report["end_offset"] > 0
    after = create(scene, "after")
    # A broker stores its last applied offset once a second.
    until(lambda: all(seen(broker) > report["end_offset"] for broker in scene.brokers.values()))
    kill(scene)

    # The broker has applied newer metadata than the backup, with and without its log.
    words = refused(quorum("restore", first, str(made)))
    assert "Nothing was changed" in words
    assert "has applied the metadata log up to offset" in words
    for broker in scene.brokers.values():
        shutil.rmtree(log_of(broker))
    assert "has applied the metadata log up to offset" in refused(quorum("restore", first, str(made)))
    assert not log_of(first).exists()
    done(quorum("restore", first, str(made), "--accept-older"))

    # A broker that has applied newer metadata refuses the restored log, until an operator accepts it.
    second = scene.brokers[2]
    first.launch()
    second.launch()
    assert second.wait() != 0
    assert "restored from an older copy" in second.console.read_text()
    for broker in (second, scene.brokers[3]):
        done(quorum("accept-restored", broker, "--yes"))
    scene.start()
    until(lambda: all(before <= topics(broker) for broker in scene.brokers.values()))
    assert not topics(first) & after
    # The brokers remove no data for one delete.topic.delay.ms.
    notes = [json.loads((broker.data_dir / "quorum-seen").read_text()) for broker in scene.brokers.values()]
    assert all(note["accepted_ms"] > 0 for note in notes)
    create(scene, "later")


@pytest.mark.parametrize("running", [True, False])
def test_backup_of_a_cluster_without_snapshots(tmp_path: Path, running: bool) -> None:
    """Nothing is due for a snapshot yet. The backup has every change that the broker has applied."""
    made = tmp_path / "metadata.snapshot"
    with Scene(tmp_path / "cluster", {}) as scene:
        scene.start()
        until(scene.all_vote)
        first = scene.brokers[1]
        names = create(scene, "a")
        until(lambda: stored_all(first))
        if not running:
            kill(scene)
            # The end of a log may not have reached a majority: a backup has only what the broker has applied.
            stored = read_seen(first.data_dir)
            assert stored is not None
            write_seen(first.data_dir, msgspec.structs.replace(stored, offset=stored.offset - 1))
            report = json.loads(done(quorum("backup", first, str(made), "--json")))
            assert 0 < report["end_offset"] < stored.offset
            write_seen(first.data_dir, stored)
        done(quorum("backup", first, str(made)))
        kill(scene)
        for broker in scene.brokers.values():
            shutil.rmtree(log_of(broker))
        done(quorum("restore", first, str(made)))
        first.start()
        assert names <= topics(first)


def test_backups_during_changes(scene: Scene, tmp_path: Path) -> None:
    """The running broker appends, and replaces snapshots and segments. Each backup is the metadata at one offset."""
    first = scene.brokers[1]
    ends = []
    with ThreadPoolExecutor(1) as threads:
        for number in range(4):
            changing = threads.submit(create, scene, f"t{number}-", 100)
            while True:
                report = json.loads(done(quorum("backup", first, str(tmp_path / "metadata.snapshot"), "--json")))
                ends.append(report["end_offset"])
                if changing.done():
                    break
            names = changing.result()
    assert ends == sorted(ends)
    assert len(snapshots(first)) == 2
    until(lambda: stored_all(first))
    done(quorum("backup", first, str(tmp_path / "metadata.snapshot")))
    kill(scene)
    shutil.rmtree(log_of(first))
    done(quorum("restore", first, str(tmp_path / "metadata.snapshot")))
    first.start()
    assert names <= topics(first)


def test_damaged_backup_is_refused(scene: Scene, tmp_path: Path) -> None:
    first = scene.brokers[1]
    create(scene, "a", 100)
    create(scene, "b", 100)
    until(lambda: len(snapshots(first)) == 2)
    made = tmp_path / "metadata.snapshot"
    done(quorum("backup", first, str(made)))
    kill(scene)
    content = bytearray(made.read_bytes())
    content[len(content) // 2] ^= 1
    made.write_bytes(content)
    assert "is damaged: its SHA-256" in refused(quorum("restore", first, str(made), "--accept-older"))
    assert log_of(first).exists()


def test_only_voter_left_recovers_the_cluster(scene: Scene) -> None:
    names = create(scene, "a")
    until(lambda: all(names <= topics(broker) for broker in scene.brokers.values()))
    kill(scene)
    first, second, third = scene.brokers.values()
    for broker in (second, third):
        shutil.rmtree(broker.data_dir)
    asked = quorum("recover", first)
    assert asked.returncode == 1
    assert "the only voter" in asked.stdout
    told = done(quorum("recover", first, "--yes"))
    assert "voters: 1, 2, 3" in told
    assert "WARNING: changes that only other voters have are lost" in told
    first.start()
    assert names <= topics(first)

    def starts(broker: QuorumBroker) -> bool:
        # The controller refuses other directories until the session of the previous process has ended.
        with contextlib.suppress(RuntimeError):
            broker.start()
        return broker.running

    until(lambda: starts(second))
    until(lambda: starts(third))
    until(lambda: all(names <= topics(broker) for broker in (second, third)))
    # Without broker 1, brokers 2 and 3 are a majority of the new voters.
    until(lambda: first.console.read_text().count("voters of the metadata log: 1, 2, 3 ") > 1)
    first.kill()
    scene.controller()


def test_voter_with_a_longer_log_refuses_a_shorter_one(scene: Scene) -> None:
    names = create(scene, "a")
    first, second, third = scene.brokers.values()
    until(lambda: names <= topics(first))
    first.kill()
    create(scene, "b")
    until(lambda: seen(second) > seen(first))
    kill(scene)
    # Broker 1 lacks records that the others have applied; an operator chooses it anyway.
    done(quorum("recover", first, "--yes"))
    first.launch()
    second.launch()
    assert second.wait() != 0
    assert "pybroker cluster quorum accept-restored" in second.console.read_text()
    done(quorum("accept-restored", second, "--yes"))
    assert not log_of(second).exists()
    second.launch()
    first.await_answers()
    second.await_answers()
    until(lambda: names <= topics(second))
    assert third.running is False
