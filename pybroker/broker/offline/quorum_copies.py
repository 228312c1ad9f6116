"""`pybroker cluster quorum backup`, `restore`, `recover` and `accept-restored`: commands for the metadata log of a
broker.

A backup is a snapshot of what a broker has applied, with a JSON file that has its position and checksum. The other
three commands change the directories of a stopped broker. Each of them may lose changes that other brokers remember, so
it lists these changes.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.lifecycle.startup.quorum_opening import voter_endpoint
from pybroker.broker.offline.first_snapshot import snapshot_name, write_snapshot
from pybroker.broker.offline.offline_directories import locked, read_properties_of, write_properties_of
from pybroker.broker.offline.quorum_directory import LogContent, ReplacedFilesError, read_log
from pybroker.broker.quorum.seen_metadata import SeenPosition, read_seen, write_seen
from pybroker.config import BrokerConfig
from pybroker.errors import StartError
from pybroker.files import fsync_directory, read_bounded, write_atomically
from pybroker.native import NativeError, Uuid
from pybroker.native_quorum import MetadataQuorum, QuorumLogSummary, QuorumReplica
from pybroker.wall_clock import wall_ms

MANIFEST = ".json"
MANIFEST_BYTES_MAX = 64 * 1024
ATTEMPTS = 5
"""Number of attempts to read the log, because a running broker may replace its files at the same time."""
SET_ASIDE = ".quorum-set-aside-{}"
"""Name of a metadata log after another log has replaced it; the time is inserted."""


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
    """Write a snapshot of what a running or stopped broker has applied to a file, or into a directory. Raises
    StartError, OSError."""
    first = metadata_directory(config).parent
    properties = read_properties_of(first)
    if properties is None:
        raise StartError(f"{first} has no metadata log")
    image, timestamp_ms = _applied(first)
    if (unknown := image.features.unknown_level) is not None:
        raise StartError(unknown)
    voter = QuorumReplica(config.broker_id, Uuid.parse(properties["directory.id"]))
    folder = target if target.is_dir() else target.parent
    with _temporary(folder) as temporary:
        try:
            written = write_snapshot(
                config, properties["cluster.id"], image, voter, Path(temporary), timestamp_ms=timestamp_ms
            )
        except NativeError as problem:
            raise StartError(f"cannot write the backup: {problem}") from None
        path = target / written.name if target.is_dir() else target
        snapshot = written.read_bytes()
        manifest = Manifest(
            cluster_id=properties["cluster.id"],
            node_id=config.broker_id,
            end_offset=image.offset,
            epoch=image.controller_epoch,
            timestamp_ms=timestamp_ms,
            bytes=len(snapshot),
            sha256=hashlib.sha256(snapshot).hexdigest(),
        )
        write_atomically(path.with_name(path.name + MANIFEST), msgspec.json.format(msgspec.json.encode(manifest)))
        written.replace(path)
    fsync_directory(folder)
    return Backup(path, manifest)


def _applied(first: Path) -> LogContent:
    """Return the metadata up to the offset that the broker has stored as applied: a majority has it. Raises
    StartError."""
    seen = read_seen(first)
    for _ in range(ATTEMPTS):
        try:
            content = read_log(first, 0 if seen is None else seen.offset)
        except ReplacedFilesError:
            continue
        image = content.image
        if image.offset == 0:
            raise StartError(f"{first} has no metadata that this broker has applied. Start the broker first")
        if content.timestamp_ms >= 0:
            return content
        try:
            timestamp_ms, _ = MetadataQuorum.check_snapshot(
                first / METADATA_LOG_DIRECTORY, image.offset, image.controller_epoch
            )
        except NativeError:
            # The broker has removed the snapshot since.
            continue
        return content._replace(timestamp_ms=timestamp_ms)
    raise StartError(f"the metadata log in {first} changes too fast to read it")


def _temporary(folder: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=folder, prefix=".snapshot-")


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
        with _temporary(first) as temporary:
            shutil.copyfile(made.path, Path(temporary) / snapshot_name(manifest.end_offset, manifest.epoch))
            try:
                MetadataQuorum.restore(
                    Path(temporary), manifest.end_offset, manifest.epoch, directory, voter, voter_endpoint(config)
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
        """Number of offsets that this broker has applied but that its log does not contain."""
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
