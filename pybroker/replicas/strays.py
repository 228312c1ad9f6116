"""Partition directories that the scan at start found and that no request has claimed yet.

Each is settled by the first row that fits:

| directory | what happens |
|---|---|
| claimed by a request with its own id | it is opened |
| `partition.metadata` damaged or foreign | put aside: not served, not touched, KAFKA_STORAGE_ERROR for that partition |
| no `partition.metadata`, and its log never held a byte | takes the id of the request (checklist 138) |
| no `partition.metadata`, its topic has just got its first id | takes the id of the request (checklist 211) |
| no `partition.metadata`, and it holds data | put aside |
| its id is that of a live topic of another name | put aside |
| its id has a deletion record | staged for removal: its topic is dead, that is proof |
| its name and partition belong to another id whose leader epoch is above every epoch in this directory | staged |
| its name and partition belong to another id, epochs say nothing | put aside (INCONSISTENT_TOPIC_ID, |
|  | unless its own directory is there, too) |
| the id of the request, a second time | the first of `log.dirs` is opened, the other put aside |
| nothing is known of its id | left alone: absence of information never deletes |

A FULL request that would stage more than a tenth of what lies here (and more than ten) on epochs alone stages none of
them and waits for an operator.
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
from pybroker.metadata.deletion_records import DEAD_STATES, decode_deletion_head
from pybroker.metadata.store import MetadataStore, get_or_none
from pybroker.native import AdoptedDirectory, LocalPartition, NativeBroker, StopOrder, Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name
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


def _by_id(topic_id: Uuid) -> str:
    """Stands for the name where directories are named by id; no topic can be called so."""
    return f"/{topic_id}"


def _place(directory: LocalPartition) -> tuple[str, int]:
    if directory.topic is not None:
        return directory.topic, directory.partition
    return "" if directory.topic_id is None else _by_id(directory.topic_id), directory.partition


class _Claim(NamedTuple):
    """What a request says about a place."""

    topic_id: Uuid
    leader_epoch: int
    served: bool
    """Its own directory is there, too: what is wrong with others does not concern it."""


class Strays:
    """See the module."""

    def __init__(self, native: NativeBroker, store: MetadataStore) -> None:
        self._native = native
        self._store = store
        self._by_place: dict[tuple[str, int], list[LocalPartition]] = {}
        self._problems: dict[tuple[str, int], Problem] = {}
        self.left_alone: set[tuple[str, int]] = set()
        """Places of directories of which nothing is known. A later topic of the name may put them aside."""
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether directories are left that nobody claimed."""
        return bool(self._by_place)

    def found(self, local: Sequence[LocalPartition]) -> None:
        """Takes the result of the scan."""
        self._count = len(local)
        for directory in local:
            self._by_place.setdefault(_place(directory), []).append(directory)

    def problem(self, name: str, partition: int) -> Problem | None:
        """Why a partition must not be opened."""
        return self._problems.get((name, partition)) if self._problems else None

    def name_of(self, topic_id: Uuid) -> str | None:
        """The name in the directories of an id: "" where they are named by id, None if there are none."""
        for directories in self._by_place.values():
            for directory in directories:
                if directory.topic_id == topic_id:
                    return directory.topic or ""
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
        if request.type == LeaderAndIsrType.FULL and self._by_place:
            await self._set_copies_aside({topic.topic_id: topic.topic_name for topic in request.topic_states})
        doubtful: dict[tuple[str, int], list[LocalPartition]] = {}
        claims: dict[tuple[str, int], _Claim] = {}
        for topic in request.topic_states:
            for state in topic.partition_states:
                place = (topic.topic_name, state.partition_index)
                directories = [
                    *self._by_place.pop(place, ()),
                    *self._by_place.pop((_by_id(topic.topic_id), state.partition_index), ()),
                ]
                if not directories:
                    continue
                others = [found for found in directories if found.topic_id != topic.topic_id or found.problem]
                if others:
                    doubtful[place] = others
                    claims[place] = _Claim(topic.topic_id, state.leader_epoch, len(others) < len(directories))
        if request.type == LeaderAndIsrType.FULL:
            doubtful |= self._by_place
            self._by_place = {}
        if doubtful:
            await self._settle(doubtful, claims, staging, delay_ms)

    async def _set_copies_aside(self, names: dict[Uuid, str]) -> None:
        """A directory with the id of a topic of another name is a copy that somebody has made."""
        copies = []
        for (name, partition), directories in list(self._by_place.items()):
            kept = []
            for directory in directories:
                owner = names.get(directory.topic_id) if directory.topic_id is not None else None
                if directory.topic is None or owner in (None, name):
                    kept.append(directory)
                    continue
                why = f"{directory.directory} holds the id {directory.topic_id} of topic {owner!r}"
                log.error("%s is put aside: it was copied there, or renamed", why)
                self._problems[name, partition] = Problem(ErrorCode.KAFKA_STORAGE_ERROR, why)
                copies.append(directory.directory)
            if len(kept) == len(directories):
                continue
            if kept:
                self._problems.pop((name, partition), None)
            self._keep((name, partition), kept)
        if copies:
            await asyncio.get_running_loop().run_in_executor(None, self._native.log_dirs.set_aside, copies)

    async def _settle(
        self,
        doubtful: dict[tuple[str, int], list[LocalPartition]],
        claims: dict[tuple[str, int], _Claim],
        staging: Staging,
        delay_ms: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        dead = await self._dead({d.topic_id for found in doubtful.values() for d in found if d.topic_id is not None})
        proven: list[LocalPartition] = []
        outdated: list[LocalPartition] = []
        nameless: list[tuple[LocalPartition, Uuid]] = []
        for place, directories in doubtful.items():
            claim = claims.get(place)
            for directory in directories:
                if directory.problem is not None or directory.topic_id is None:
                    why = directory.problem or f"it has no {partition_metadata.FILE_NAME}"
                    if claim is None or claim.served:
                        log.error("%s is put aside: %s", directory.directory, why)
                    elif len(directories) == 1:
                        nameless.append((directory, claim.topic_id))
                    else:
                        self._problems[place] = Problem(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.directory}: {why}")
                elif directory.topic_id in dead:
                    proven.append(directory)
                elif claim is None:
                    self.left_alone.add(place)
                    log.warning(
                        "%s belongs to topic id %s, of which nothing is known: it is not served and stays where it is",
                        directory.directory,
                        directory.topic_id,
                    )
                elif claim.leader_epoch > await loop.run_in_executor(None, _last_epoch, directory):
                    outdated.append(directory)
                else:
                    text = (
                        f"{directory.directory} holds topic id {directory.topic_id}, and nothing proves that "
                        f"topic {place[0]} of id {claim.topic_id} comes after it"
                    )
                    if claim.served:
                        log.error("%s is put aside: %s", directory.directory, text)
                    else:
                        self._problems[place] = Problem(ErrorCode.INCONSISTENT_TOPIC_ID, text)
        await self._adopt(nameless)
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

    async def _adopt(self, nameless: list[tuple[LocalPartition, Uuid]]) -> None:
        """Gives ids to directories without one, all in one native call. A directory that cannot be read or written
        costs its partition, never the others of the request."""
        if not nameless:
            return
        loop = asyncio.get_running_loop()
        first_ids: dict[str, Uuid | None] = {}
        for name in {directory.topic or "" for directory, _ in nameless}:
            first_ids[name] = await self._first_id(name)
        taken: list[tuple[LocalPartition, Uuid]] = []
        for directory, topic_id in nameless:
            first_id = first_ids[directory.topic or ""] == topic_id
            refusal = await loop.run_in_executor(None, _refusal, directory, first_id)
            if refusal is None:
                taken.append((directory, topic_id))
            else:
                self._refuse(directory, refusal)
        wanted = [AdoptedDirectory(directory.directory, topic_id, directory.partition) for directory, topic_id in taken]
        problems = await loop.run_in_executor(None, self._native.log_dirs.adopt, wanted) if wanted else []
        for (directory, topic_id), problem in zip(taken, problems, strict=True):
            if problem is None:
                log.info("%s takes the topic id %s", directory.directory, topic_id)
            else:
                self._refuse(directory, problem)

    def _refuse(self, directory: LocalPartition, why: str) -> None:
        self._problems[directory.topic or "", directory.partition] = Problem(ErrorCode.KAFKA_STORAGE_ERROR, why)

    async def _first_id(self, name: str) -> Uuid | None:
        """The id of a topic whose migration is not finished."""
        path = znodes.topic_id_path(name)
        node = await get_or_none(self._store, path)
        if node is None:
            return None
        try:
            return znodes.decode_topic_id(path, node.data).topic_id
        except znodes.DamagedNodeError as problem:
            log.error("the record of a migration is damaged: %s", problem)
            return None

    async def _dead(self, ids: set[Uuid]) -> set[Uuid]:
        """Those that have a deletion record which says so: a damaged one, too, but not that of an undeletion."""
        dead = set()
        for topic_id in ids:
            path = znodes.deletion_path(topic_id)
            node = await get_or_none(self._store, path)
            if node is None:
                continue
            try:
                returning = decode_deletion_head(path, node.data).state not in DEAD_STATES
            except znodes.DamagedNodeError:
                returning = False
            if not returning:
                dead.add(topic_id)
        return dead

    async def _stage(self, directories: list[LocalPartition], staging: Staging, delay_ms: int) -> None:
        if not directories:
            return
        await staging.promise({d.topic_id: d.topic or "" for d in directories if d.topic_id is not None}, delay_ms)
        staging.say(
            logging.WARNING,
            "left over on disk",
            [(d.topic_id, d.partition) for d in directories if d.topic_id is not None],
        )
        orders = [
            StopOrder(d.topic_id, d.partition, leader_epoch=-1, delete=True)
            for d in directories
            if d.topic_id is not None
        ]
        codes = await asyncio.get_running_loop().run_in_executor(None, self._native.partitions.stop, orders)
        staging.staged({d.topic_id for d in directories if d.topic_id is not None})
        for directory, code in zip(directories, codes, strict=True):
            if code:
                log.error("%s cannot be staged for deletion: %s", directory.directory, error_name(code))
                self._problems[directory.topic or "", directory.partition] = Problem(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.directory} cannot be staged"
                )


def _refusal(directory: LocalPartition, first_id: bool) -> str | None:
    """Why a directory must not take an id; `first_id`: its topic has just got its first one."""
    path = Path(directory.directory)
    try:
        if partition_metadata.read(path) is not None:
            return directory.problem
        if not first_id and any(segment.stat().st_size > 0 for segment in path.glob("*.log")):
            return f"{path} has records but no {partition_metadata.FILE_NAME}: nothing tells whose they are"
    except PartitionMetadataError as problem:
        return str(problem)
    except OSError as problem:
        return f"{path}: {problem.strerror or problem}"
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
