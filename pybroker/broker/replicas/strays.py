"""Stray replicas: directories that the scan at start found and that no request has named yet, or that a request has
named with another id. Replicas in service that a FULL request does not name are stray, too.

`stray_reconciliation.decide` decides about each of them, with the evidence about its topic (`stray_evidence`). This
module executes the outcomes:

| outcome | what happens |
|---|---|
| staged | moved to `deleting/`, removed after `delete.topic.delay.ms` |
| unknown | several brokers: moved to `deleting/` without a deadline, an operator decides; one broker: stays in place |
| adopted | without `partition.metadata`: takes the id of the request if its log never held a byte, or |
|         | if its topic has just got its first id |
| aside, refused | not served, not touched; a partition without another directory answers an error |
| kept | waits for a request that names it |

A FULL request may stage more than a tenth of the local partitions (and more than ten) because their topics are on other
brokers, unknown, or replaced according to leader epochs only. Above that limit, the broker stages none of them and
waits for an operator (`stale.replicas.max.percent`). Ordered removals do not count: the topic was deleted, or a
reassignment moved this replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import LeaderAndIsrRequest, LeaderAndIsrType
from pybroker.broker.metadata.metadata_store import MetadataStore, StoreError, get_or_none
from pybroker.broker.replicas import partition_metadata
from pybroker.broker.replicas.hosted_replicas import HostedReplicas
from pybroker.broker.replicas.partition_metadata import PartitionMetadataError, last_epoch
from pybroker.broker.replicas.staging import Staging
from pybroker.broker.replicas.stray_evidence import Replica, TopicEvidence
from pybroker.broker.replicas.stray_reconciliation import Claim, Evidence, FoundDirectory, ReconcileOutcome, decide
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.native import AdoptedDirectory, LocalPartition, NativeBroker, StopOrder, Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

STAGED_MIN = 10
"""Number of replicas that may always be staged, whatever their share of the local partitions."""

Place = tuple[str, int]
"""Topic name and partition."""

Stop = Callable[[list[StopOrder]], Awaitable[list[int]]]


class Problem(msgspec.Struct, frozen=True):
    """The reason why a partition is not opened: the error code for LeaderAndIsr, and a sentence for the operator."""

    code: int
    text: str


def _by_id(topic_id: Uuid) -> str:
    """Return a key to be used in place of the name if directories are named by id. No topic can have this name."""
    return f"/{topic_id}"


def _place(directory: LocalPartition) -> Place:
    if directory.topic is not None:
        return directory.topic, directory.partition
    return "" if directory.topic_id is None else _by_id(directory.topic_id), directory.partition


class _Candidate(msgspec.Struct, frozen=True):
    """A replica about which `stray_reconciliation.decide` decides."""

    place: Place
    partition: int
    topic_id: Uuid | None
    """None if the replica has no readable id."""
    directory: LocalPartition | None
    """None if the replica is in service."""
    epoch: int | None = None
    """The highest leader epoch of the replica, if it is in service."""

    @property
    def replica(self) -> Replica | None:
        if self.topic_id is None:
            return None
        by_id = self.directory is not None and self.directory.topic is None
        return Replica(self.topic_id, self.partition, None if by_id else self.place[0])

    def __str__(self) -> str:
        if self.directory is not None:
            return self.directory.directory
        return f"{self.place[0]}-{self.partition} (id {self.topic_id})"


class _Plan:
    """The actions that result from the decisions about single replicas."""

    def __init__(self) -> None:
        self.proven: list[_Candidate] = []
        """Replicas to stage because the topic was deleted or a reassignment moved the replica away."""
        self.staged: list[_Candidate] = []
        """Replicas to stage because of weaker evidence."""
        self.unknown: list[_Candidate] = []
        self.nameless: list[tuple[LocalPartition, Uuid]] = []
        self.copies: list[str] = []


class Strays:
    """The stray replicas of one broker."""

    def __init__(
        self, native: NativeBroker, store: MetadataStore | None, known: TopicEvidence, share_max: Callable[[], int]
    ) -> None:
        """`share_max` returns `stale.replicas.max.percent`."""
        self._native = native
        self._store = store
        self._known = known
        self._share_max = share_max
        self._by_place: dict[Place, list[LocalPartition]] = {}
        self._problems: dict[Place, Problem] = {}
        self._undecided: set[Place] = set()
        """Places with a problem that the next FULL request may solve."""
        self._shares = LoopShares()
        self.left_alone: set[Place] = set()
        """Places of directories with unknown topic ids. When a later topic of the same name comes, the directories may
        be staged."""
        self._count = 0

    @property
    def any(self) -> bool:
        """Return whether there are directories that no request has named."""
        return bool(self._by_place)

    def found(self, local: Sequence[LocalPartition]) -> None:
        """Store the result of the scan."""
        self._count = len(local)
        for directory in local:
            self._by_place.setdefault(_place(directory), []).append(directory)

    def problem(self, name: str, partition: int) -> Problem | None:
        """Return the reason why a partition is not opened; None if it can be opened."""
        return self._problems.get((name, partition)) if self._problems else None

    def name_of(self, topic_id: Uuid) -> str | None:
        """Return the topic name in the directories of an id; "" if the directories are named by id, None if there are
        no directories."""
        for directories in self._by_place.values():
            for directory in directories:
                if directory.topic_id == topic_id:
                    return directory.topic or ""
        return None

    def ids_at(self, name: str, partition: int) -> list[Uuid]:
        """Return the topic ids of the stray directories of this topic name and partition."""
        found = self._by_place.get((name, partition), ())
        return [directory.topic_id for directory in found if directory.topic_id is not None]

    def gone(self, topic_id: Uuid, partition: int) -> None:
        """Drop a directory that StopReplica has staged."""
        if self._by_place:
            for place, directories in list(self._by_place.items()):
                if place[1] == partition:
                    self._keep(place, [d for d in directories if d.topic_id != topic_id])

    def _keep(self, place: Place, directories: list[LocalPartition]) -> None:
        if directories:
            self._by_place[place] = directories
        else:
            self._by_place.pop(place, None)

    async def settle(
        self, request: LeaderAndIsrRequest, hosted: HostedReplicas, stop: Stop, staging: Staging, delay_ms: int
    ) -> list[tuple[Uuid, int]]:
        """Claim, adopt or stage stray replicas before a request is applied. After a FULL request, all of them are
        decided. `stop` stops partitions that are in service. Return the partitions that are no longer in service."""
        full = request.type == LeaderAndIsrType.FULL
        if full and not self._known.is_of(request.controller_epoch):
            log.error(
                "received a FULL LeaderAndIsr request before its metadata; replicas that it does not name stay "
                "as they are"
            )
            full = False
        if full:
            for place in self._undecided:
                self._problems.pop(place, None)
            self._undecided.clear()
        claims: dict[Place, Claim[Uuid]] = {}
        candidates = [found async for found in self._claimed(request, hosted, claims, full=full)]
        if full:
            candidates += [found async for found in self._unclaimed(request, hosted)]
        if not candidates:
            return []
        count = max(self._count, len(hosted))
        plan = await self._plan(candidates, claims, full=full)
        await self._adopt(plan.nameless)
        if plan.copies:
            await asyncio.get_running_loop().run_in_executor(None, self._native.log_dirs.set_aside, plan.copies)
        if len(plan.staged) + len(plan.unknown) > max(STAGED_MIN, count * self._share_max() // 100):
            self._wait_for_operator(plan, claims, count)
        return [
            *await self._stage(plan.proven + plan.staged, stop, staging, None if self._known.doubtful() else delay_ms),
            *await self._stage(plan.unknown, stop, staging, None),
        ]

    async def _claimed(
        self, request: LeaderAndIsrRequest, hosted: HostedReplicas, claims: dict[Place, Claim[Uuid]], *, full: bool
    ) -> AsyncIterator[_Candidate]:
        """Yield the replicas at places that the request claims for another id, and the replicas without an id."""
        async for topic, state in self._shares.each(request.partitions()):
            index = state.partition_index
            place = (topic.topic_name, index)
            directories = [
                *self._by_place.pop(place, ()),
                *self._by_place.pop((_by_id(topic.topic_id), index), ()),
            ]
            others = [found for found in directories if found.topic_id != topic.topic_id or found.problem]
            served = hosted.id_at(*place) if full else None
            if served == topic.topic_id:
                served = None
            if not others and served is None:
                continue
            present = len(others) < len(directories) or hosted.epoch(topic.topic_id, index) is not None
            claims[place] = Claim(topic.topic_id, state.leader_epoch, present, len(others) == 1)
            for found in others:
                yield _Candidate(place, index, None if found.problem else found.topic_id, found)
            if served is not None:
                yield _Candidate(place, index, served, None, hosted.epoch(served, index))

    async def _unclaimed(self, request: LeaderAndIsrRequest, hosted: HostedReplicas) -> AsyncIterator[_Candidate]:
        """Yield the replicas that a FULL request does not name."""
        rest, self._by_place = self._by_place, {}
        for place, directories in rest.items():
            for found in directories:
                yield _Candidate(place, place[1], None if found.problem else found.topic_id, found)
        partitions = self._shares.each(request.partitions())
        named = {(topic.topic_name, state.partition_index) async for topic, state in partitions}
        async for topic_id, name, partition, epoch in self._shares.each(list(hosted.all())):
            if (name, partition) not in named:
                yield _Candidate((name, partition), partition, topic_id, None, epoch)

    async def _plan(self, candidates: list[_Candidate], claims: Mapping[Place, Claim[Uuid]], *, full: bool) -> _Plan:
        evidence = await self._known.of(candidate.replica for candidate in candidates if candidate.replica is not None)
        plan = _Plan()
        for candidate in candidates:
            claim = claims.get(candidate.place)
            what = Evidence.NOTHING if candidate.replica is None else evidence[candidate.replica]
            epoch = candidate.epoch if candidate.epoch is not None else -1
            undecided = what in (Evidence.NOTHING, Evidence.HERE)
            if claim is not None and undecided and candidate.topic_id is not None and candidate.directory:
                path = Path(candidate.directory.directory)
                epoch = await asyncio.get_running_loop().run_in_executor(None, last_epoch, path)
            match decide(FoundDirectory(candidate.topic_id, epoch), claim, what, full=full):
                case ReconcileOutcome.STAGED:
                    proven = what in (Evidence.DEAD, Evidence.DEPARTED)
                    (plan.proven if proven else plan.staged).append(candidate)
                case ReconcileOutcome.UNKNOWN:
                    self._unknown(candidate, plan)
                case ReconcileOutcome.ADOPTED:
                    assert candidate.directory is not None
                    assert claim is not None
                    plan.nameless.append((candidate.directory, claim.topic_id))
                case ReconcileOutcome.ASIDE:
                    self._aside(candidate, claim, what, plan)
                case ReconcileOutcome.KEPT:
                    self._kept(candidate, claim, what)
                case ReconcileOutcome.REFUSED:
                    assert claim is not None
                    self._problems[candidate.place] = _refused(candidate, claim)
        return plan

    def _unknown(self, one: _Candidate, plan: _Plan) -> None:
        if self._known.complete:
            plan.unknown.append(one)
            return
        if one.directory is None:
            return
        self.left_alone.add(one.place)
        log.warning(
            "replica not served, because the cluster does not know its topic id; it stays where it is replica=%s id=%s",
            one,
            one.topic_id,
        )

    def _aside(self, one: _Candidate, claim: Claim[Uuid] | None, what: Evidence, plan: _Plan) -> None:
        if one.directory is None:
            log.error("replica served under an old name of its topic replica=%s", one)
            return
        if what is not Evidence.OTHER_NAME:
            why = one.directory.problem or f"it has no {partition_metadata.FILE_NAME}"
            if one.topic_id is not None and claim is not None:
                why = _refused(one, claim).text
            log.error("replica not served; it stays where it is replica=%s: %s", one, why)
            return
        why = f"{one} holds the id {one.topic_id} of a topic of another name"
        log.error("replica not served, because its directory was copied or renamed; it stays where it is: %s", why)
        plan.copies.append(one.directory.directory)
        if claim is None or not claim.present:
            self._problems[one.place] = Problem(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def _kept(self, one: _Candidate, claim: Claim[Uuid] | None, what: Evidence) -> None:
        if one.directory is not None:
            self._by_place.setdefault(one.place, []).append(one.directory)
        if claim is not None and not claim.present:
            self._problem_until_full(
                one.place,
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{one} occupies the directory, and its topic "
                f"{('is being undeleted' if what is Evidence.RETURNING else 'exists')}",
            )

    def _problem_until_full(self, place: Place, code: int, text: str) -> None:
        self._problems[place] = Problem(code, text)
        self._undecided.add(place)

    def _wait_for_operator(self, plan: _Plan, claims: Mapping[Place, Claim[Uuid]], count: int) -> None:
        doubtful = plan.staged + plan.unknown
        log.error(
            "%d of %d local replicas would be staged for deletion, because their topics are unknown, have other "
            "ids or have no replica here. No replicas were moved. If this is expected, raise "
            "stale.replicas.max.percent for one start",
            len(doubtful),
            count,
        )
        for candidate in doubtful:
            if candidate.directory is not None:
                self._by_place.setdefault(candidate.place, []).append(candidate.directory)
            if candidate.place in claims:
                self._problem_until_full(
                    candidate.place,
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{candidate} is one of too many replicas to stage for deletion (stale.replicas.max.percent)",
                )
        plan.staged.clear()
        plan.unknown.clear()

    async def _adopt(self, nameless: list[tuple[LocalPartition, Uuid]]) -> None:
        """Give ids to directories without an id, in one native call. If a directory cannot be read or written, only its
        partition fails.
        """
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
                log.info("adopted a topic id directory=%s id=%s", directory.directory, topic_id)
            else:
                self._refuse(directory, problem)

    def _refuse(self, directory: LocalPartition, why: str) -> None:
        self._problems[directory.topic or "", directory.partition] = Problem(ErrorCode.KAFKA_STORAGE_ERROR, why)

    async def _first_id(self, name: str) -> Uuid | None:
        """Return the id of a topic whose migration is not finished. With a metadata quorum there are no migrations."""
        if self._store is None:
            return None
        path = znodes.topic_id_path(name)
        try:
            node = await get_or_none(self._store, path)
        except StoreError as problem:
            log.error("cannot read whether a topic was just given its id name=%s: %s", name, problem)
            return None
        if node is None:
            return None
        try:
            return znodes.decode_topic_id(path, node.data).topic_id
        except znodes.DamagedNodeError as problem:
            log.error("ignored a damaged migration record: %s", problem)
            return None

    async def _stage(
        self, candidates: list[_Candidate], stop: Stop, staging: Staging, delay_ms: int | None
    ) -> list[tuple[Uuid, int]]:
        """Stage replicas. Return the partitions that are no longer in service."""
        moved = [(candidate, candidate.topic_id) for candidate in candidates if candidate.topic_id is not None]
        if not moved:
            return []
        names = {
            topic_id: "" if candidate.replica is None or candidate.replica.name is None else candidate.replica.name
            for candidate, topic_id in moved
        }
        await staging.promise(names, delay_ms)
        staging.say(
            logging.WARNING, "left over on disk", [(topic_id, candidate.partition) for candidate, topic_id in moved]
        )
        codes = await stop([StopOrder(topic_id, candidate.partition, -1, delete=True) for candidate, topic_id in moved])
        staging.staged(names)
        stopped = []
        for (stray, topic_id), code in zip(moved, codes, strict=True):
            if code:
                log.error("cannot stage a replica for deletion replica=%s: %s", stray, error_name(code))
                self._problems[stray.place] = Problem(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{stray} cannot be staged for deletion"
                )
            elif stray.directory is None:
                stopped.append((topic_id, stray.partition))
        return stopped


def _refused(one: _Candidate, claim: Claim[Uuid]) -> Problem:
    """Return the reason why a place cannot be used while this replica is there."""
    if one.topic_id is None:
        why = f"it has no {partition_metadata.FILE_NAME}"
        if one.directory is not None and one.directory.problem:
            why = one.directory.problem
        return Problem(ErrorCode.KAFKA_STORAGE_ERROR, f"{one}: {why}")
    return Problem(
        ErrorCode.INCONSISTENT_TOPIC_ID,
        f"{one} holds topic id {one.topic_id}, and nothing proves that topic {one.place[0]} with id "
        f"{claim.topic_id} replaces it",
    )


def _refusal(directory: LocalPartition, first_id: bool) -> str | None:
    """Return the reason why a directory must not get an id; None if it may get the id. `first_id`: whether the topic
    has just got its first id."""
    path = Path(directory.directory)
    try:
        if partition_metadata.read(path) is not None:
            return directory.problem
        if not first_id and any(segment.stat().st_size > 0 for segment in path.glob("*.log")):
            return f"{path} has records but no {partition_metadata.FILE_NAME}: its topic id is unknown"
    except PartitionMetadataError as problem:
        return str(problem)
    except OSError as problem:
        return f"{path}: {problem.strerror or problem}"
    return None
