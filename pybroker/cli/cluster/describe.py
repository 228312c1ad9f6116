"""`pybroker cluster describe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.cli.cluster.cluster_report import BrokerReport, DeletionReport, Report

COUNTS: Mapping[str, str] = {
    "offline": "offline_partitions",
    "under_replicated": "under_replicated_partitions",
    "under_min_isr": "under_min_isr_partitions",
    "at_min_isr": "at_min_isr_partitions",
    "reassigning": "reassigning_partitions",
    "too_few_replicas": "too_few_replicas_partitions",
}
"""Name of a count → field of the broker's response."""


@click.command()
@broker_options
def describe(target: Target) -> None:
    """List brokers and report problems.

    Shows brokers with epochs and racks, the controller, partitions without a leader or with replicas that are not in
    sync, and deletions that are in progress.
    """
    run(_describe(target))


async def _describe(target: Target) -> None:
    from pybroker.cli.cluster.cluster_report import collect
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        report = await collect(admin)
    if target.json:
        write_json(_document(report))
    else:
        _show(report)


def _document(report: Report) -> dict[str, Any]:
    state = report.state
    document: dict[str, Any] = {
        "cluster_id": report.cluster_id,
        "controller": report.controller,
        "brokers": [_broker(each, report) for each in report.brokers],
    }
    if state is None:
        return document
    return document | {
        "controller_epoch": state.controller_epoch,
        "topic_count": state.topics,
        "partition_count": state.partitions,
        "counts": {name: getattr(state, field) for name, field in COUNTS.items()},
        "partitions": [partition(each) for each in state.conditions],
        "damaged": [{"topic": each.name, "what": each.reason} for each in state.damaged_topics],
        "deletions": [_deletion(each) for each in report.deletions],
    }


def _broker(one: BrokerReport, report: Report) -> dict[str, Any]:
    return {
        "broker": one.broker,
        "broker_epoch": one.broker_epoch,
        "host": one.host,
        "port": one.port,
        "rack": one.rack,
        "state": one.state,
        "controller": one.broker == report.controller,
        "leader_count": one.leaders,
        "replica_count": one.replicas,
        "store": one.store,
        "offline_log_dirs": list(one.offline_log_dirs),
    }


def partition(one: Any) -> dict[str, Any]:
    """Return an unhealthy partition of the broker's response for JSON."""
    return {
        "topic": one.name,
        "topic_id": str(one.topic_id) if one.topic_id else None,
        "partition": one.partition_index,
        "leader": None if one.leader_id < 0 else one.leader_id,
        "leader_epoch": one.leader_epoch,
        "replicas": list(one.replica_nodes),
        "isr": list(one.isr_nodes),
        "adding": list(one.adding_nodes),
        "removing": list(one.removing_nodes),
        "min_isr": one.min_isr,
        "is": conditions(one),
    }


def conditions(one: Any) -> list[str]:
    """Return the problems of a partition, named as in `counts`."""
    offline = one.leader_id < 0
    in_sync = 0 if offline else len(one.isr_nodes)
    found = {
        "offline": offline,
        "under_replicated": offline or in_sync < len(one.replica_nodes) - len(one.adding_nodes),
        "under_min_isr": in_sync < one.min_isr,
        "reassigning": bool(one.adding_nodes or one.removing_nodes),
        "too_few_replicas": len(one.replica_nodes) < one.replicas_wanted,
    }
    return [name for name, holds in found.items() if holds]


def _deletion(one: DeletionReport) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "topic_id": one.topic_id,
        "state": one.state,
        "deleted_ms": one.deleted_ms,
        "deleted_by": one.deleted_by,
        "partitions": [
            {"partition": each.partition, "broker": each.broker, "state": each.state, "bytes": each.size_bytes}
            for each in one.partitions
        ],
    }


def _show(report: Report) -> None:
    state = report.state
    say(f"Cluster id: {report.cluster_id or '(none)'}")
    rows = [_broker(each, report) for each in report.brokers]
    if state is None:
        table(rows, ["broker", "host", "port", "rack", "controller"])
        return
    who = "none" if report.controller is None else str(report.controller)
    say(f"Controller: {who}, epoch {state.controller_epoch}")
    columns = ["broker", "broker_epoch", "host", "port", "rack", "state", "controller", "leader_count", "replica_count"]
    table(rows, [*columns, "store"])
    counts = ", ".join(f"{getattr(state, field):,} {name.replace('_', ' ')}" for name, field in COUNTS.items())
    say()
    say(f"{state.topics:,} topics, {state.partitions:,} partitions: {counts}")
    if state.conditions:
        say()
        shown = [partition(each) for each in state.conditions]
        table(shown, ["topic", "topic_id", "partition", "leader", "replicas", "isr", "min_isr", "is"])
    if report.deletions:
        say()
        say("Deletions in progress:")
        table(
            [{**_deletion(deletion), "on_brokers": _where(deletion)} for deletion in report.deletions],
            ["topic", "topic_id", "state", "deleted_by", "on_brokers"],
        )


def _where(deletion: DeletionReport) -> list[str]:
    """Return each broker with the state and size of its replicas, as in `1:staged:2048`."""
    brokers: dict[int, list[Any]] = {}
    for each in deletion.partitions:
        brokers.setdefault(each.broker, []).append(each)
    found = []
    for broker, replicas in sorted(brokers.items()):
        states = "+".join(sorted({each.state for each in replicas}))
        sizes = [each.size_bytes for each in replicas]
        known = "?" if None in sizes else str(sum(size for size in sizes if size is not None))
        found.append(f"{broker}:{states}:{known}")
    return found
