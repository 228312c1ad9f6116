"""The assignor `sticky` (KIP-1071): places active tasks and standbys. Pure.

It places active tasks first. A task stays on its member, unless the member has more than its share of tasks. Otherwise
the task goes to a member with a copy of its state, or else to the least loaded process. The assignor then places
standbys: on the member that had the standby before, on a member with a copy of the state, or on the least loaded
process without the task. A process has a task at most once, because its members share a state directory. The load of a
process is its number of tasks per member: an instance with more threads gets more tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pybroker.broker.coordinators.streams.model import HeldTasks, Task, TaskOffsets, Tasks
from pybroker.broker.coordinators.streams.topology import ConfiguredSubtopology

log = logging.getLogger(__name__)

NAME = "sticky"


class Worker(msgspec.Struct, frozen=True):
    """The assignor's input for one member."""

    member_id: str
    process_id: str
    has: HeldTasks
    offsets: TaskOffsets = {}
    """Changelog offsets of all task states on the member's disk, even of tasks that it does not run."""


def sticky(
    workers: Sequence[Worker], subtopologies: Mapping[str, ConfiguredSubtopology], standbys: int
) -> dict[str, Tasks]:
    """Return the tasks of each member. standbys: number of standbys per stateful task."""
    if not workers:
        return {}
    return _Assignment(workers, subtopologies, standbys).made()


class _Process(msgspec.Struct):
    members: dict[str, int] = {}
    """Member → number of its tasks."""
    tasks: set[Task] = set()

    @property
    def load(self) -> float:
        return sum(self.members.values()) / len(self.members)

    @property
    def least_loaded(self) -> str:
        return min(self.members, key=lambda member_id: (self.members[member_id], member_id))


class _Quota:
    """The number of tasks per member. When a member reaches it, it is recomputed for the remaining members."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def add(self, count: int) -> None:
        """Note that a member has `count` tasks."""
        if count == self.each and self._members:
            self._members -= 1
            self._tasks -= count
            self.each = self._share()


class _Assignment:
    def __init__(
        self, workers: Sequence[Worker], subtopologies: Mapping[str, ConfiguredSubtopology], standbys: int
    ) -> None:
        self._standbys = standbys
        self._active: dict[str, set[Task]] = {worker.member_id: set() for worker in workers}
        self._standby: dict[str, set[Task]] = {worker.member_id: set() for worker in workers}
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        for worker in sorted(workers, key=lambda worker: worker.member_id):
            process = self._processes.setdefault(worker.process_id, _Process())
            process.members[worker.member_id] = 0
            self._process_of[worker.member_id] = process
        self._all = sorted((part, index) for part, made in subtopologies.items() for index in range(made.tasks))
        self._stateful = [task for task in self._all if subtopologies[task[0]].is_stateful]
        self._ran = {task: worker.member_id for worker in workers for task in sorted(worker.has.active)}
        self._copies = _copies(workers)
        count = len(self._all)
        self._active_quota = _Quota(count, len(workers))
        self._quota = _Quota(count + len(self._stateful) * standbys, len(workers))

    def made(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._standbys:
            self._assign_standbys()
        return {
            member: Tasks(frozenset(self._active[member]), frozenset(self._standby[member])) for member in self._active
        }

    def _give(self, member: str, task: Task, where: dict[str, set[Task]]) -> None:
        process = self._process_of[member]
        process.members[member] += 1
        process.tasks.add(task)
        where[member].add(task)
        if where is self._active:
            self._active_quota.add(process.members[member])
        self._quota.add(process.members[member])

    def _has(self, member: str) -> int:
        return self._process_of[member].members[member]

    def _assign_active(self) -> None:
        # Sort by partition. The tasks of one subtopology then stay distributed over their previous members.
        left = sorted(self._all, key=lambda task: (task[1], task[0]))
        for before in (self._ran.get, self._least_loaded_copy):
            waiting, left = left, []
            for task in waiting:
                member = before(task)
                if member is not None and self._has(member) < self._active_quota.each:
                    self._give(member, task, self._active)
                else:
                    left.append(task)
        for task in sorted(left):
            process = min(self._processes.values(), key=lambda process: process.load)
            self._give(process.least_loaded, task, self._active)

    def _least_loaded_copy(self, task: Task) -> str | None:
        return self._least_loaded(self._copies.get(task, ()))

    def _least_loaded(self, member_ids: Iterable[str]) -> str | None:
        def load(member_id: str) -> tuple[float, int]:
            return self._process_of[member_id].load, self._has(member_id)

        return min(member_ids, key=load, default=None)

    def _assign_standbys(self) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(self._stateful, key=lambda task: (task[1], task[0]), reverse=True):
            for made in range(self._standbys):
                member = self._keeps(task)
                if member is None:
                    left.append((task, self._standbys - made))
                    break
                self._give(member, task, self._standby)
        for task, copies in sorted(left, reverse=True):
            for made in range(copies):
                free = [process for process in self._processes.values() if task not in process.tasks]
                if not free:
                    log.info(
                        "cannot place standbys of task %s_%d (%d of %d): there are too few instances",
                        *task,
                        copies - made,
                        self._standbys,
                    )
                    break
                process = min(free, key=lambda process: process.load)
                self._give(process.least_loaded, task, self._standby)

    def _keeps(self, task: Task) -> str | None:
        """Return a member that has a copy of the task's state and room for the standby."""
        ran = self._ran.get(task)
        if ran is not None and self._may_copy(ran, task) and self._has(ran) < self._quota.each:
            return ran
        best = self._least_loaded(other for other in self._copies.get(task, ()) if self._may_copy(other, task))
        return best if best is not None and self._has(best) < self._quota.each else None

    def _may_copy(self, member: str, task: Task) -> bool:
        return task not in self._process_of[member].tasks


def _copies(workers: Sequence[Worker]) -> dict[Task, list[str]]:
    """Return task → members with a copy of its state. Members with a standby come first, then the other members by
    changelog offset."""
    found: dict[Task, list[tuple[bool, int, str]]] = {}
    for worker in workers:
        for task in worker.has.standby | worker.offsets.keys():
            copy = task not in worker.has.standby, -worker.offsets.get(task, 0), worker.member_id
            found.setdefault(task, []).append(copy)
    return {task: [member for *_, member in sorted(copies)] for task, copies in found.items()}
