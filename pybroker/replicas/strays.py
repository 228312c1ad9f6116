"""Partition directories that the scan at start found and that no request has claimed yet.

Each is settled by the first row that fits:

| directory | what happens |
|---|---|
| claimed by a request with its own id | it is opened |
| `partition.metadata` damaged or foreign | put aside: not served, not touched, KAFKA_STORAGE_ERROR for that partition |
| no `partition.metadata`, and its log never held a byte | adopts the id of the request (A19, checklist 138) |
| no `partition.metadata`, and it holds data | put aside |
| its id has a deletion record | staged for removal: its topic is dead, that is proof |
| its name and partition belong to another id whose leader epoch is above every epoch in this directory (R10) | staged |
| its name and partition belong to another id, epochs say nothing | put aside; the request gets INCONSISTENT_TOPIC_ID |
| nothing is known of its id | left alone: absence of information never deletes (A11, B9) |

A FULL request that would stage more than a tenth of what lies here (and more than ten) on epochs alone stages none of
them and waits for an operator (X27).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pybroker.files import read_bounded
from pybroker.metadata import znodes
from pybroker.metadata.control_messages import LeaderAndIsrRequest, LeaderAndIsrType
from pybroker.metadata.store import MetadataStore
from pybroker.native import LocalPartition, NativeBroker, StopOrder, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replicas import partition_metadata
from pybroker.replicas.partition_metadata import PartitionMetadataError
from pybroker.replicas.staging import Staging

log = logging.getLogger(__name__)

STAGED_SHARE_MAX = 10
"""One in so many local partitions may be staged on epochs alone …"""
STAGED_MIN = 10
"""… and always this many."""

EPOCH_CHECKPOINT_BYTES_MAX = 1 << 20


class Problem(NamedTuple):
    """Why a partition is not opened: the code that LeaderAndIsr answers, and a sentence for the operator."""

    code: int
    text: str


class Strays:
    """See the module."""

    def __init__(self, native: NativeBroker, store: MetadataStore) -> None:
        self._native = native
        self._store = store
        self._by_place: dict[tuple[str, int], list[LocalPartition]] = {}
        self._problems: dict[tuple[str, int], Problem] = {}
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether directories are left that nobody claimed."""
        return bool(self._by_place)

    def found(self, local: Sequence[LocalPartition]) -> None:
        """Takes the result of the scan."""
        self._count = len(local)
        for directory in local:
            self._by_place.setdefault((directory.topic or "", directory.partition), []).append(directory)

    def problem(self, name: str, partition: int) -> Problem | None:
        """Why a partition must not be opened."""
        return self._problems.get((name, partition)) if self._problems else None

    def name_of(self, topic_id: Uuid) -> str | None:
        """The name in the directories of an id."""
        for (name, _), directories in self._by_place.items():
            if any(directory.topic_id == topic_id for directory in directories):
                return name
        return None

    def gone(self, topic_id: Uuid, partition: int) -> None:
        """A directory was staged by StopReplica."""
        if self._by_place:
            for place, directories in list(self._by_place.items()):
                if place[1] == partition:
                    self._keep(place, [d for d in directories if d.topic_id != topic_id])

    def _keep(self, place: tuple[str, int], directories: list[LocalPartition]) -> None:
        if directories:
            self._by_place[place] = directories
        else:
            self._by_place.pop(place, None)

    async def settle(self, request: LeaderAndIsrRequest, staging: Staging, delay_ms: int) -> None:
        """Before a request is applied: claims, stages and puts aside. A FULL request settles every directory."""
        doubtful: dict[tuple[str, int], list[LocalPartition]] = {}
        successors: dict[tuple[str, int], tuple[Uuid, int]] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                place = (topic.topic_name, state.partition_index)
                directories = self._by_place.pop(place, None)
                if directories is None:
                    continue
                others = [found for found in directories if found.topic_id != topic.topic_id or found.problem]
                if others:
                    doubtful[place] = others
                    successors[place] = (topic.topic_id, state.leader_epoch)
        if request.type == LeaderAndIsrType.FULL:
            doubtful |= self._by_place
            self._by_place = {}
        if doubtful:
            await self._settle(doubtful, successors, staging, delay_ms)

    async def _settle(
        self,
        doubtful: dict[tuple[str, int], list[LocalPartition]],
        successors: dict[tuple[str, int], tuple[Uuid, int]],
        staging: Staging,
        delay_ms: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        dead = await self._dead({d.topic_id for found in doubtful.values() for d in found if d.topic_id is not None})
        proven: list[LocalPartition] = []
        outdated: list[LocalPartition] = []
        for place, directories in doubtful.items():
            successor = successors.get(place)
            for directory in directories:
                if directory.problem is not None or directory.topic_id is None:
                    if successor is not None:
                        problem = await loop.run_in_executor(None, _adopt, directory, successor[0])
                        if problem is not None:
                            self._problems[place] = Problem(ErrorCode.KAFKA_STORAGE_ERROR, problem)
                    else:
                        why = directory.problem or f"it has no {partition_metadata.FILE_NAME}"
                        log.error("%s is put aside: %s", directory.directory, why)
                elif directory.topic_id in dead:
                    proven.append(directory)
                elif successor is None:
                    log.warning(
                        "%s belongs to topic id %s, of which nothing is known: it is not served and stays where it is",
                        directory.directory,
                        directory.topic_id,
                    )
                elif successor[1] > await loop.run_in_executor(None, _last_epoch, directory):
                    outdated.append(directory)
                else:
                    self._problems[place] = Problem(
                        ErrorCode.INCONSISTENT_TOPIC_ID,
                        f"{directory.directory} holds topic id {directory.topic_id}, and nothing proves that "
                        f"id {successor[0]} comes after it",
                    )
        if len(outdated) > max(STAGED_MIN, self._count // STAGED_SHARE_MAX):
            log.error(
                "%d of %d local partitions would be staged for deletion because their topics have other ids now; "
                "nothing is touched and these partitions are not served until an operator has looked at it",
                len(outdated),
                self._count,
            )
            for directory in outdated:
                self._problems[directory.topic or "", directory.partition] = Problem(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.directory} is one of too many to stage"
                )
            outdated = []
        await self._stage(proven + outdated, staging, delay_ms)

    async def _dead(self, ids: set[Uuid]) -> set[Uuid]:
        return {topic_id for topic_id in ids if await self._store.exists(znodes.deletion_path(topic_id)) is not None}

    async def _stage(self, directories: list[LocalPartition], staging: Staging, delay_ms: int) -> None:
        if not directories:
            return
        await staging.promise({d.topic_id: d.topic or "" for d in directories if d.topic_id is not None}, delay_ms)
        staging.warn(
            "left over on disk",
            [(d.topic or "", d.topic_id, d.partition) for d in directories if d.topic_id is not None],
        )
        orders = [StopOrder(d.topic_id, d.partition, -1, True) for d in directories if d.topic_id is not None]
        codes = await asyncio.get_running_loop().run_in_executor(None, self._native.stop_partitions, orders)
        staging.staged({d.topic_id for d in directories if d.topic_id is not None})
        for directory, code in zip(directories, codes, strict=True):
            if code:
                log.error("%s cannot be staged for deletion: error %d", directory.directory, code)
                self._problems[directory.topic or "", directory.partition] = Problem(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.directory} cannot be staged"
                )


def _adopt(directory: LocalPartition, topic_id: Uuid) -> str | None:
    """Writes the id into a directory without one, if its log never held a byte. Gives the problem otherwise, also that
    of the disk: one directory that cannot be read or written costs its partition, never the others of the request."""
    path = Path(directory.directory)
    try:
        found = partition_metadata.read(path)
        if found is not None:
            return directory.problem
        for segment in path.glob("*.log"):
            if segment.stat().st_size > 0:
                return f"{path} has records but no {partition_metadata.FILE_NAME}: nothing tells whose they are"
        partition_metadata.write(path, topic_id)
    except PartitionMetadataError as problem:
        return str(problem)
    except OSError as problem:
        return f"{path}: {problem.strerror or problem}"
    log.info("%s takes the topic id %s", path, topic_id)
    return None


def _last_epoch(directory: LocalPartition) -> int:
    """The highest leader epoch in a directory; -1 if none is known. A checkpoint that cannot be read proves nothing."""
    path = Path(directory.directory) / "leader-epoch-checkpoint"
    try:
        lines = read_bounded(path, EPOCH_CHECKPOINT_BYTES_MAX).decode("ascii").split("\n")
        return max((int(line.split(" ")[0]) for line in lines[2:] if line), default=-1)
    except FileNotFoundError:
        return -1
    except (OSError, ValueError) as problem:
        log.error("%s: %s", path, problem)
        return (1 << 31) - 1
