"""Checks the disks of the data, permissions of the broker's files, and the owner of the data."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pybroker.broker.lifecycle.startup.ownership import refuse_others_data, unclean
from pybroker.broker.lifecycle.startup.permission_check import exposed, readable
from pybroker.broker.metadata.metadata_store import SQLITE_FILE
from pybroker.broker.metadata.node_table import split
from pybroker.broker.metadata.znodes import CLUSTER_ID, DamagedNodeError, decode_cluster_id
from pybroker.broker.offline.offline_directories import LOCK_FILE, META_PROPERTIES, read_properties_of
from pybroker.cli.doctor.finding import Finding, bad, ok, warn
from pybroker.cli.output import of_bytes
from pybroker.config import BrokerConfig
from pybroker.errors import StartError

DISK = "disk"
FILE_SYSTEM = "file system"
RIGHTS = "rights"
IDS = "ids"
LAST_STOP = "last stop"

FREE_BYTES_MIN = 1 << 30
FREE_SHARE_MIN = 0.1
INODES_SHARE_MIN = 0.05
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.s3fs", "glusterfs"}
"""File systems on which locks, links or a flush may not work as specified."""
MEMORY = {"tmpfs", "ramfs"}
TEMPORARY = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
UNSAFE_OPTIONS = {"nobarrier", "barrier=0", "data=writeback", "nojournal"}
"""Mount options with which a power failure can lose flushed data, or show data that was never flushed."""
SECRETS = ("ssl.keystore.location", "zookeeper.ssl.keystore.location")


class Mount(NamedTuple):
    """The mount of a path."""

    point: str
    kind: str
    options: frozenset[str]


def disks(directories: Sequence[str], mountinfo: Path = Path("/proc/self/mountinfo")) -> Iterator[Finding]:
    """Check free space and the guarantees of the file systems."""
    devices: dict[int, str] = {}
    for directory in directories:
        there = nearest(Path(directory))
        if not os.access(there, os.W_OK | os.X_OK):
            yield bad(DISK, f"this user cannot write to {there}", f"change its owner, or run as its owner: {directory}")
            continue
        yield from _room(directory, there)
        yield from _file_system(directory, there, mountinfo)
        device = there.stat().st_dev
        if device in devices:
            says = f"{devices[device]} and {directory} share one disk: two directories improve neither speed nor safety"
            yield warn(DISK, says, "put each of log.dirs on its own disk")
        devices.setdefault(device, directory)


def _room(directory: str, there: Path) -> Iterator[Finding]:
    room = os.statvfs(there)
    yield free_room(directory, room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize)
    if room.f_files and room.f_favail < room.f_files * INODES_SHARE_MIN:
        few = f"{directory}: {room.f_favail:,} of {room.f_files:,} inodes free"
        yield warn(DISK, few, "free some inodes: a partition needs about ten")


def free_room(directory: str, free: int, total: int) -> Finding:
    """Return the finding for this many free bytes of a disk."""
    says = f"{directory}: {of_bytes(free)} of {of_bytes(total)} free"
    if free < FREE_BYTES_MIN:
        return bad(DISK, says, "free disk space: a full disk refuses all writes; limit topics with retention.bytes")
    if free < total * FREE_SHARE_MIN:
        return warn(DISK, says, "free disk space, or limit topics with retention.bytes and retention.ms")
    return ok(DISK, says)


def _file_system(directory: str, there: Path, mountinfo: Path) -> Iterator[Finding]:
    mount = mount_of(there, mountinfo)
    if mount is None:
        return
    says = f"{directory}: {mount.kind} at {mount.point}"
    unsafe = sorted(mount.options & UNSAFE_OPTIONS)
    temporary = next((each for each in TEMPORARY if Path(directory).is_relative_to(each)), None)
    if mount.kind in MEMORY:
        yield bad(FILE_SYSTEM, f"{says}: data is lost at power-off", "put log.dirs on a disk")
    elif mount.kind in NETWORK:
        yield bad(FILE_SYSTEM, f"{says}: a network file system", "use a local disk (ext4, XFS)")
    elif unsafe:
        options = ",".join(unsafe)
        yield bad(
            FILE_SYSTEM,
            f"{says}, mounted with {options}",
            "mount it without these options: flushed data may not reach the disk",
        )
    elif mount.kind == "overlay":
        yield warn(FILE_SYSTEM, f"{says}: data is removed with the container", "mount a volume for log.dirs")
    elif temporary is not None:
        yield warn(
            FILE_SYSTEM, f"{directory}: systems clean up {temporary} automatically", "put log.dirs under /var/lib"
        )
    else:
        yield ok(FILE_SYSTEM, says)


def mount_of(path: Path, mountinfo: Path) -> Mount | None:
    """Return the mount of a path; None if the kernel does not list it."""
    try:
        lines = mountinfo.read_text().splitlines()
    except OSError:
        return None
    wanted, found = path.resolve(), None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        # Blanks in the path are written as \040.
        point = fields[4].encode().decode("unicode_escape")
        if wanted.is_relative_to(point) and (found is None or len(point) >= len(found.point)):
            found = Mount(point, kinds[0], frozenset(fields[5].split(",") + kinds[2].split(",")))
    return found


def nearest(path: Path) -> Path:
    """Return the path or its nearest existing parent."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def rights(file: str | None, config: BrokerConfig) -> Iterator[Finding]:
    """Check for files that other users can change, and for secrets and data that other users can read."""
    found = False
    for says in exposed(file, config.log_dirs):
        sentence, _, advice = says.partition("; ")
        found = True
        yield bad(RIGHTS, sentence, advice)
    for says in readable(config.log_dirs, config.get_str("log.dirs.group.access")):
        sentence, _, advice = says.partition("; ")
        found = True
        yield warn(RIGHTS, sentence, advice)
    secrets = [(str(config[name]), name) for name in SECRETS if config.get(name)]
    if file is not None and _has_passwords(config):
        secrets.append((file, "settings file with passwords"))
    for place, name in secrets:
        with contextlib.suppress(OSError):  # A missing file is reported by the code that needs it.
            if Path(place).stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
                found = True
                yield bad(RIGHTS, f"every user of this machine can read {place} ({name})", f"chmod o-rwx {place}")
    if not found:
        yield ok(RIGHTS, "other users cannot change settings, and cannot read or change data")


def _has_passwords(config: BrokerConfig) -> bool:
    from pybroker.config import BROKER_SETTINGS, ConfigSource, ConfigType

    static = config.layer(ConfigSource.STATIC_BROKER_CONFIG)
    own = any(name in BROKER_SETTINGS and BROKER_SETTINGS[name].type == ConfigType.PASSWORD for name in static)
    return own or any(name.endswith(("jaas.config", "password", "keystore.key")) for name in config.listener_settings)


def ids(config: BrokerConfig) -> Iterator[Finding]:
    """Check that the directories belong to this broker, and to one cluster."""
    try:
        refuse_others_data(config.log_dirs, config.broker_id, store=config.get_str("metadata.store"))
        owners = {each: read_properties_of(Path(each)) for each in config.log_dirs}
    except StartError as problem:
        yield bad(IDS, str(problem), "nothing was changed; `pybroker start` fails with the same error")
        return
    clusters = {each: owner["cluster.id"] for each, owner in owners.items() if owner and "cluster.id" in owner}
    stored = None if config.in_cluster else stored_cluster_id(Path(config.log_dirs[0]))
    if stored is not None:
        clusters[str(Path(config.log_dirs[0]) / SQLITE_FILE)] = stored
    if len(set(clusters.values())) > 1:
        summary = ", ".join(f"{place} to {cluster}" for place, cluster in clusters.items())
        advice = "correct log.dirs, or use `pybroker cluster adopt-id ID`"
        yield bad(IDS, f"the directories belong to several clusters: {summary}", advice)
    elif clusters:
        yield ok(IDS, f"{META_PROPERTIES}: broker {config.broker_id} of cluster {next(iter(clusters.values()))}")
    else:
        yield ok(IDS, f"new directories for broker {config.broker_id}")


def stored_cluster_id(directory: Path) -> str | None:
    """Return the cluster id in the metadata of a stopped broker; None if there is no id or the store is in use."""
    path = directory / SQLITE_FILE
    if not path.is_file() or in_use(directory):
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT data FROM node WHERE parent=? AND name=?", split(CLUSTER_ID)).fetchone()
        return None if row is None else decode_cluster_id(bytes(row[0]))
    except (sqlite3.Error, DamagedNodeError):
        return None  # The next start opens the store and reports the error.


def in_use(directory: Path) -> bool:
    """Return whether a broker runs on the directory."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Take a shared lock and release it immediately: it fails if a broker has its exclusive lock.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def last_stop(directories: Sequence[str]) -> Iterator[Finding]:
    """Check whether the last stop was clean. While a broker runs, the result is unknown."""
    left = [] if any(in_use(Path(each)) for each in directories) else unclean(directories)
    for says in left:
        yield warn(LAST_STOP, says, "expect a longer start; find out why the broker was killed")


def partitions_in(directories: Sequence[str]) -> int:
    """Return the number of partition directories, in both directory layouts."""
    layouts = ("*/partition.metadata", "??/*/partition.metadata")
    return sum(1 for each in directories for layout in layouts for _ in Path(each).glob(layout))


def files_of(directories: Sequence[str]) -> list[Path]:
    """Return the files at the top level of the data directories. The broker writes them at starts, at stops and every
    few seconds."""
    found: list[Path] = []
    for each in directories:
        with contextlib.suppress(OSError):
            found += [path for path in Path(each).iterdir() if path.is_file()]
    return found
