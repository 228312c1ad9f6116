"""Common parts of `drain` and `balance`: read the cluster for planning, show a plan, and execute it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pybroker.broker.admin.placement_plans import Move, Plan, PlanBroker, PlanPartition
from pybroker.cli.output import say, table, write_json

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicPartition

POLL_S = 0.2
HEARD_WITHIN_S = 10.0
LINE_EVERY_S = 10.0
"""Interval of progress lines if there is no terminal."""
PARTITIONS_A_REQUEST = 1_000


class Layout(msgspec.Struct):
    """Brokers and partitions of the cluster. `replicas_wanted`: internal topics with fewer replicas than the settings
    require."""

    brokers: list[PlanBroker]
    partitions: list[PlanPartition]
    replicas_wanted: dict[str, int]


async def read_layout(admin: AdminClient) -> Layout:
    """Read the cluster. Partitions that are being reassigned have their target replicas. Raises KafkaError."""
    from pybroker.cli.cluster.cluster_report import collect
    from pybroker.client import TopicPartition

    report = await collect(admin)
    if report.state is None:
        raise click.ClickException("No broker returned the state of the cluster.")
    names = list(await admin.list_topics(list_internal=True))
    described, moving, directories = await asyncio.gather(
        admin.describe_topics(names).all_topic_names(),
        admin.list_partition_reassignments(),
        admin.describe_log_dirs(),
    )
    sizes: dict[TopicPartition, int] = {}
    for found in directories.values():
        for directory in found.values():
            for where, replica in directory.replicas.items():
                sizes[where] = max(sizes.get(where, 0), replica.size)
    partitions = []
    for topic in described.values():
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition)
            going = moving[where].removing_replicas if where in moving else ()
            replicas = tuple(node.id for node in partition.replicas if node.id not in going)
            partitions.append(PlanPartition(topic.name, partition.partition, replicas, sizes.get(where, 0)))
    few = (row for row in report.state.conditions if len(row.replica_nodes) < row.replicas_wanted)
    return Layout(
        [PlanBroker(broker.broker, broker.rack) for broker in report.brokers if broker.state == "running"],
        partitions,
        {row.name: row.replicas_wanted for row in few},
    )


def after(partitions: Sequence[PlanPartition], plan: Plan) -> list[PlanPartition]:
    """Return the partitions after the plan."""
    moved = {(move.topic, move.partition): move.after for move in plan}
    return [
        msgspec.structs.replace(
            partition, replicas=moved.get((partition.topic, partition.partition), partition.replicas)
        )
        for partition in partitions
    ]


def between(before: Sequence[PlanPartition], wanted: Sequence[PlanPartition]) -> Plan:
    """Return one plan that has the effect of several consecutive plans."""
    return tuple(
        Move(old.topic, old.partition, old.replicas, new.replicas, old.size_bytes)
        for old, new in zip(before, wanted, strict=True)
        if old.replicas != new.replicas
    )


def show_plan(plan: Plan) -> None:
    """Print the plan as a table, with its cost."""
    rows = [{**_document(move), "to": list(move.after)} for move in plan]
    table(rows, ["topic", "partition", "replicas", "to", "adding", "removing", "bytes"])
    copies = sum(len(move.adding) for move in plan)
    say()
    say(f"{len(plan):,} partitions, {copies:,} replicas to copy, {sum(m.moved_bytes for m in plan):,} bytes")


def write_plan(plan: Plan, *, executed: bool) -> None:
    """Print the plan as JSON."""
    write_json(
        {
            "executed": executed,
            "bytes": sum(move.moved_bytes for move in plan),
            "partitions": [{**_document(move), "to": list(move.after)} for move in plan],
        }
    )


def _document(move: Move) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "replicas": list(move.before),
        "adding": list(move.adding),
        "removing": list(move.removing),
        "bytes": move.moved_bytes,
    }


async def begin(admin: AdminClient, plan: Plan) -> None:
    """Start all reassignments and return when they have begun. Raises KafkaError."""
    from pybroker.client import TopicPartition

    targets = [(TopicPartition(move.topic, move.partition), move.after) for move in plan]
    for start in range(0, len(targets), PARTITIONS_A_REQUEST):
        some: Mapping[TopicPartition, Sequence[int]] = dict(targets[start : start + PARTITIONS_A_REQUEST])
        await admin.alter_partition_reassignments(some).all()


async def wait(admin: AdminClient, plan: Plan, timeout_s: float | None, *, silent: bool) -> None:
    """Wait until all replicas have moved, and show progress. Raises click.ClickException if the time limit expires, or
    if another command changes the plan's reassignments.
    """
    from pybroker.client import ElectionType, TopicPartition

    planned = {TopicPartition(move.topic, move.partition): move.after for move in plan}
    give_up = None if timeout_s is None else time.monotonic() + timeout_s
    with _ProgressDisplay(len(plan), silent) as show:
        while True:
            left = set(await admin.list_partition_reassignments()) & set(planned)
            show(len(planned) - len(left))
            if not left:
                break
            if give_up is not None and time.monotonic() >= give_up:
                raise click.ClickException(f"{len(left):,} partitions are still moving after {timeout_s:g} s.")
            await asyncio.sleep(POLL_S)
    # The controller reports that no reassignment is left. The queried broker may apply the change a moment later.
    heard = time.monotonic() + HEARD_WITHIN_S
    while (wrong := await _elsewhere(admin, planned)) is not None:
        if time.monotonic() >= heard:
            raise click.ClickException(f"{wrong}: another reassignment changed it.")
        await asyncio.sleep(POLL_S)
    # A replica that cannot become leader now will become leader later (auto.leader.rebalance.enable).
    await admin.elect_leaders(ElectionType.PREFERRED, planned)


async def _elsewhere(admin: AdminClient, planned: Mapping[TopicPartition, Sequence[int]]) -> str | None:
    """If a partition's replicas differ from the plan, return them as text; otherwise None."""
    described = await admin.describe_topics(sorted({partition.topic for partition in planned})).all_topic_names()
    for where, wanted in planned.items():
        found = {node.id for node in described[where.topic].partitions[where.partition].replicas}
        if found != set(wanted):
            return f"{where} is on brokers {sorted(found)} instead of {sorted(wanted)}"
    return None


class _ProgressDisplay:
    """A bar on a terminal, lines otherwise; nothing with --json."""

    def __init__(self, total: int, silent: bool) -> None:
        self._total = total
        self._silent = silent
        self._bar: Any = None
        self._said = time.monotonic()

    def __enter__(self) -> Callable[[int], None]:
        if not self._silent and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("moved"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
            task = self._bar.add_task("moved", total=self._total)
            return lambda done: self._bar.update(task, completed=done)
        return self._line

    def _line(self, done: int) -> None:
        if not self._silent and time.monotonic() - self._said >= LINE_EVERY_S:
            self._said = time.monotonic()
            say(f"moved {done:,} of {self._total:,} partitions", err=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
