"""`pybroker cluster quorum backup`, `restore`, `recover` and `accept-restored`: commands for the metadata log of a
broker.

A backup is a snapshot of the log, with a JSON file that has its position and checksum. The other three commands change
the directories of a stopped broker. Each of them may lose changes that other brokers remember, so it lists these
changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.lifecycle.startup.quorum_opening import voter_endpoint
from pybroker.broker.offline.offline_directories import locked, read_properties_of, write_properties_of
from pybroker.broker.quorum.seen_metadata import SeenPosition, read_seen, write_seen
from pybroker.config import BrokerConfig
from pybroker.errors import StartError
from pybroker.files import fsync_directory, read_bounded, write_atomically
from pybroker.native import NativeError, Uuid
from pybroker.native_quorum import MetadataQuorum, QuorumLogSummary, QuorumReplica
from pybroker.wall_clock import wall_ms

SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
MANIFEST = ".json"
MANIFEST_BYTES_MAX = 64 * 1024
ATTEMPTS = 5
"""Number of attempts: a running broker may replace its snapshots while one is copied."""
SET_ASIDE = ".quorum-set-aside-{}"
"""Attempts to copy a snapshot: a running broker may replace its snapshots during a copy."""


class Manifest(msgspec.Struct, frozen=True):
    """The content of a backup's JSON file."""

    cluster_id: str
    node_id: int
    end_offset: int
    epoch: int
    timestamp_ms: int
    """Append time of the last record in the snapshot."""
    bytes: int
    sha256: str
    voters: list[int]


class Backup(NamedTuple):
    """A backup after it was written or read."""

    path: Path
    manifest: Manifest


def metadata_directory(config: BrokerConfig) -> Path:
    """Return the directory of the metadata log. Raises StartError if the broker has its metadata elsewhere."""
    if not config.in_quorum:
        raise StartError(f"metadata.store is {config['metadata.store']}, not quorum: there is no metadata log")
    return Path(config.metadata_log_dir) / METADATA_LOG_DIRECTORY


# --- backup -----------------------------------------------------------------------------------------------------------


def backup(config: BrokerConfig, target: Path) -> Backup:
    """Copy the newest snapshot of a running or stopped broker to a file, or into a directory. Raises StartError and
    OSError."""
    directory = metadata_directory(config)
    for _ in range(ATTEMPTS):
        found = max(_snapshots(directory), default=None)
        if found is None:
            raise StartError(f"{directory} has no metadata log")
        end_offset, epoch, source = found
        if end_offset == 0:
            raise StartError(
                f"{directory} has no snapshot yet. A broker writes the first one after "
                "metadata.log.max.record.bytes.between.snapshots or metadata.log.max.snapshot.interval.ms"
            )
        path = target / source.name if target.is_dir() else target
        try:
            return _copy(config, source, (end_offset, epoch), path)
        except FileNotFoundError:
            if source.exists():
                raise
    raise StartError(f"the snapshots in {directory} change too fast to copy one")


def _snapshots(directory: Path) -> Iterator[tuple[int, int, Path]]:
    for path in directory.iterdir() if directory.is_dir() else ():
        matched = SNAPSHOT.fullmatch(path.name)
        if matched is not None:
            yield int(matched[1]), int(matched[2]), path


def _copy(config: BrokerConfig, source: Path, position: tuple[int, int], path: Path) -> Backup:
    with _checked_copy(source, position, path.parent) as (copy, timestamp_ms, voters):
        content = copy.read_bytes()
        properties = read_properties_of(Path(config.metadata_log_dir)) or {}
        manifest = Manifest(
            cluster_id=properties.get("cluster.id", ""),
            node_id=config.broker_id,
            end_offset=position[0],
            epoch=position[1],
            timestamp_ms=timestamp_ms,
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            voters=voters,
        )
        write_atomically(path.with_name(path.name + MANIFEST), msgspec.json.format(msgspec.json.encode(manifest)))
        copy.replace(path)
    fsync_directory(path.parent)
    return Backup(path, manifest)


@contextmanager
def _checked_copy(source: Path, position: tuple[int, int], folder: Path) -> Iterator[tuple[Path, int, list[int]]]:
    """Yield a copy under the snapshot's own name, with the append time of its last record and its voters."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".snapshot-") as temporary:
        copy = Path(temporary) / f"{position[0]:020}-{position[1]:010}.checkpoint"
        shutil.copyfile(source, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
        try:
            timestamp_ms, voters = MetadataQuorum.check_snapshot(Path(temporary), *position)
        except NativeError as problem:
            raise StartError(f"{source} is not a complete snapshot: {problem}") from None
        yield copy, timestamp_ms, [voter.node_id for voter in voters]


def read_backup(path: Path) -> Backup:
    """Return the backup in a file. Raises StartError if it is damaged."""
    beside = path.with_name(path.name + MANIFEST)
    try:
        manifest = msgspec.json.decode(read_bounded(beside, MANIFEST_BYTES_MAX), type=Manifest)
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError as problem:
        raise StartError(f"{problem.filename} does not exist. A backup is a snapshot and its file {MANIFEST}") from None
    except msgspec.DecodeError as problem:
        raise StartError(f"{beside} is damaged: {problem}") from None
    if found != manifest.sha256:
        raise StartError(f"{path} is damaged: its SHA-256 is {found}, {beside.name} has {manifest.sha256}")
    return Backup(path, manifest)


# --- restore ----------------------------------------------------------------------------------------------------------


def objection(config: BrokerConfig, manifest: Manifest) -> str | None:
    """Return why the backup is older than the metadata of a stopped broker; None if it is not. Raises StartError."""
    directory = metadata_directory(config)
    seen = read_seen(directory.parent)
    if seen is not None and seen.offset > manifest.end_offset:
        return (
            f"this broker has applied the metadata log up to offset {seen.offset} in epoch {seen.epoch}; the backup "
            f"ends at offset {manifest.end_offset} in epoch {manifest.epoch}, and lacks the changes between them"
        )
    if _formatted(directory):
        found = summary(config)
        return f"{directory} has a metadata log up to offset {found.end_offset} in epoch {found.last_epoch}"
    return None


def restore(config: BrokerConfig, made: Backup) -> Path | None:
    """Begin the metadata log of a stopped broker with a backup; it becomes the only voter. Return the new location of
    its previous log, if it had one. Raises StartError, OSError."""
    directory, manifest = metadata_directory(config), made.manifest
    first = directory.parent
    first.mkdir(parents=True, exist_ok=True)
    with locked([Path(log_dir) for log_dir in config.log_dirs]):
        voter = QuorumReplica(config.broker_id, own_directory_id(config, manifest.cluster_id))
        aside = _set_aside(directory)
        with _checked_copy(made.path, (manifest.end_offset, manifest.epoch), first) as (copy, _, _):
            try:
                MetadataQuorum.restore(
                    copy.parent, manifest.end_offset, manifest.epoch, directory, voter, voter_endpoint(config)
                )
            except NativeError as problem:
                raise StartError(f"cannot restore the metadata log: {problem}") from None
        write_seen(first, SeenPosition(manifest.epoch, manifest.end_offset, wall_ms()))
    return aside


def own_directory_id(config: BrokerConfig, cluster_id: str) -> Uuid:
    """Return the id of the metadata log directory of a broker of the cluster; give a new directory an id. Raises
    StartError."""
    first = Path(config.metadata_log_dir)
    properties = read_properties_of(first)
    if properties is None:
        made = Uuid.random()
        owner = {"version": "1", "cluster.id": cluster_id, "node.id": str(config.broker_id), "directory.id": str(made)}
        write_properties_of(first, owner)
        return made
    if properties.get("cluster.id") != cluster_id:
        raise StartError(f"{first} belongs to cluster {properties.get('cluster.id')}, the backup to {cluster_id}")
    return Uuid.parse(properties["directory.id"])


# --- recover ----------------------------------------------------------------------------------------------------------


class Survivor(NamedTuple):
    """The remaining log of the only voter."""

    log: QuorumLogSummary
    seen: SeenPosition | None

    @property
    def lost(self) -> int:
        """Number of offsets that this broker has applied and that its log lacks."""
        return 0 if self.seen is None else max(0, self.seen.offset - self.log.end_offset)


def survivor(config: BrokerConfig) -> Survivor:
    """Return the state of a stopped broker's log. Raises StartError."""
    directory = metadata_directory(config)
    with locked([Path(log_dir) for log_dir in config.log_dirs]):
        return Survivor(summary(config), read_seen(directory.parent))


def recover(config: BrokerConfig) -> None:
    """Make a stopped broker the only voter. Raises StartError."""
    directory = metadata_directory(config)
    with locked([Path(log_dir) for log_dir in config.log_dirs]):
        properties = read_properties_of(directory.parent) or {}
        voter = QuorumReplica(config.broker_id, Uuid.parse(properties["directory.id"]))
        try:
            MetadataQuorum.make_only_voter(directory, voter, voter_endpoint(config))
        except NativeError as problem:
            raise StartError(f"cannot change the metadata log: {problem}") from None
        found, seen = summary(config), read_seen(directory.parent)
        if seen is None or seen.offset > found.end_offset:
            seen = SeenPosition(found.last_epoch, found.end_offset)
        write_seen(directory.parent, msgspec.structs.replace(seen, accepted_ms=wall_ms()))


def summary(config: BrokerConfig) -> QuorumLogSummary:
    """Return a summary of a stopped broker's log. Raises StartError."""
    directory = metadata_directory(config)
    if not _formatted(directory):
        raise StartError(f"{directory} has no metadata log")
    try:
        return MetadataQuorum.summary(directory)
    except NativeError as problem:
        raise StartError(f"cannot read the metadata log: {problem}") from None


# --- accept -----------------------------------------------------------------------------------------------------------


def accept_restored(config: BrokerConfig) -> Path | None:
    """Let a stopped broker follow a log that lacks changes which the broker has applied: set its own log aside, and
    forget its stored position. Return the new location of its log; None if it had none. Raises StartError, OSError."""
    directory = metadata_directory(config)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked([Path(log_dir) for log_dir in config.log_dirs]):
        aside = _set_aside(directory)
        write_seen(directory.parent, SeenPosition(-1, 0, wall_ms()))
    return aside


def _formatted(directory: Path) -> bool:
    return directory.is_dir() and MetadataQuorum.is_formatted(directory)


def _set_aside(directory: Path) -> Path | None:
    if not directory.is_dir():
        return None
    aside = directory.with_name(SET_ASIDE.format(time.strftime("%Y%m%d-%H%M%S", time.gmtime())))
    directory.rename(aside)
    fsync_directory(directory.parent)
    return aside
