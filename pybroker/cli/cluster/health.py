"""`pybroker cluster health`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.options import broker_options, run
from pybroker.cli.output import of_bytes, say, write_json
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.cli.cluster.cluster_report import Report

Problem = dict[str, Any]
"""A problem: its kind (`what`), its subject, and the line for people (`says`)."""


@click.command()
@broker_options
def health(target: Target) -> None:
    """List the problems of the cluster, one per line. The exit code is 1 if there is any.

    Problems: a broker that has replicas but is not running, that does not respond or cannot reach the metadata store;
    no controller; a metadata quorum without a majority; a voter that is away or lags; a partition without a leader,
    whose leader does not lead (each leader is asked), with replicas that are not in sync, or with fewer in-sync
    replicas than min.insync.replicas; internal topics with fewer replicas than configured; log directories that are
    full or offline; damaged topics.
    """
    problems = run(_health(target))
    if problems:
        raise SystemExit(1)


async def _health(target: Target) -> list[Problem]:
    from pybroker.cli.cluster.cluster_report import collect
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        report = await collect(admin, leaders=True)
    if report.state is None:
        raise click.ClickException("No broker returned the state of the cluster.")
    problems = list(find_problems(report))
    if target.json:
        write_json({"cluster_id": report.cluster_id, "healthy": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            say(problem["says"])
    else:
        state = report.state
        say(f"healthy: {len(report.brokers)} brokers, {state.topics:,} topics, {state.partitions:,} partitions")
    return problems


def find_problems(report: Report) -> Iterator[Problem]:
    """Yield problems by priority for an operator."""
    if report.controller is None:
        yield {"what": "no_controller", "says": "no controller: metadata cannot change"}
    if report.quorum is not None:
        yield from find_voter_problems(report)
    yield from _of_brokers(report)
    yield from _of_roles(report)
    for row in report.state.conditions:
        yield from _of_partition(row)
    left = _more(report)
    if left > 0:
        yield {"what": "more", "says": f"… and {left:,} more partitions"}
    for row in report.state.damaged_topics:
        yield {"what": "damaged", "topic": row.name, "says": f"topic {row.name} is not served: {row.reason}"}


def _of_brokers(report: Report) -> Iterator[Problem]:
    for broker in report.brokers:
        about = {"broker": broker.broker}
        if broker.state == "absent":
            says = f"broker {broker.broker} is not running but has {broker.replicas:,} replicas"
            yield {"what": "absent", **about, "says": says}
        elif broker.state == "silent":
            yield {"what": "silent", **about, "says": f"broker {broker.broker} is registered but does not respond"}
        if broker.store in ("suspended", "lost"):
            says = f"broker {broker.broker} cannot reach the metadata store (session {broker.store})"
            yield {"what": "store", **about, "says": says}
        if broker.controller not in (None, -1, report.controller) or (broker.controller == -1 and report.controller):
            believed = "no controller" if broker.controller == -1 else f"broker {broker.controller} as the controller"
            actual = "no broker" if report.controller is None else f"broker {report.controller}"
            says = f"broker {broker.broker} knows {believed}, but {actual} is the controller"
            yield {"what": "other_controller", **about, "says": says}
        for log_dir in broker.offline_log_dirs:
            says = f"broker {broker.broker}: log directory {log_dir} is offline"
            yield {"what": "log_dir", **about, "log_dir": log_dir, "says": says}
        for log_dir, usable, total in broker.full_log_dirs:
            room = f"{of_bytes(usable)} of {of_bytes(total)} usable"
            says = f"broker {broker.broker}: the disk of log directory {log_dir} is full ({room}) and refuses writes"
            yield {"what": "full", **about, "log_dir": log_dir, "usable_bytes": usable, "says": says}


def _of_roles(report: Report) -> Iterator[Problem]:
    """Yield each partition once. Prefer the report of the broker that has the wrong role."""
    named: set[tuple[str, int]] = set()
    for wrong_role in report.wrong_roles:
        if (wrong_role.topic, wrong_role.partition) not in named:
            named.add((wrong_role.topic, wrong_role.partition))
            about = {
                "topic": wrong_role.topic,
                "topic_id": str(wrong_role.topic_id) if wrong_role.topic_id else None,
                "broker": wrong_role.broker,
            }
            says = (
                f"{wrong_role.topic}-{wrong_role.partition}: broker {wrong_role.broker} {wrong_role.found}; see "
                "that broker's log for whether it was repaired"
            )
            yield {"what": "wrong_role", **about, "partition": wrong_role.partition, "says": says}


def _of_partition(row: Any) -> Iterator[Problem]:
    """Yield the worst problem of a partition."""
    from pybroker.cli.cluster.describe import conditions

    found = conditions(row)
    replicas, isr = _ids(row.replica_nodes), _ids(row.isr_nodes)
    where = f"{row.name}-{row.partition_index}"
    if "offline" in found:
        what, says = "offline", f"has no leader (replicas {replicas}, last in sync: {isr})"
    elif "under_min_isr" in found:
        there = f"has {len(row.isr_nodes)} in-sync replicas ({isr} of {replicas})"
        what, says = "under_min_isr", f"{there}, min.insync.replicas is {row.min_isr}"
    elif "under_replicated" in found:
        missing = _ids(each for each in row.replica_nodes if each not in row.isr_nodes)
        there = f"leader {row.leader_id}, ISR {isr}"
        what, says = "under_replicated", f"is under-replicated: {missing} not in sync ({there})"
    elif "too_few_replicas" in found:
        few = f"has {len(row.replica_nodes)} replicas instead of the configured {row.replicas_wanted}"
        what, says = "too_few_replicas", f"{few}; run `pybroker cluster balance`"
    else:
        return  # A reassignment is not a problem.
    about = {"topic": row.name, "topic_id": str(row.topic_id) if row.topic_id else None}
    yield {"what": what, **about, "partition": row.partition_index, "says": f"{where} {says}"}


def _more(report: Report) -> int:
    """Return the minimum number of unhealthy partitions that the response omits."""
    from pybroker.cli.cluster.cluster_report import PARTITIONS_MAX

    state = report.state
    counts = (state.under_replicated_partitions, state.under_min_isr_partitions, state.too_few_replicas_partitions)
    left: int = max(counts) - PARTITIONS_MAX
    return left if len(state.conditions) >= PARTITIONS_MAX else 0


def _ids(brokers: Any) -> str:
    return ",".join(map(str, brokers)) or "none"


AWAY_MS = LAG_MS = 5_000
"""Milliseconds after which a voter has a problem: since its last fetch, or since it last had all records. A healthy
voter fetches several times a second, and has all records most of the time."""


def find_voter_problems(report: Report) -> Iterator[dict[str, Any]]:
    """Yield the problem of a missing majority, or a problem for each voter that does not fetch or that lags."""
    quorum = report.quorum
    if quorum.role != "Leader":
        yield _no_leader(report)
        return
    for voter in quorum.voters:
        if voter.voter_id == quorum.leader_id:
            continue
        who = f"voter {voter.voter_id} of the metadata quorum"
        about = {"voter": voter.voter_id}
        if voter.ms_since_fetch < 0:
            says = f"{who} is away: it has not fetched since broker {quorum.leader_id} leads"
            yield {"what": "voter_away", **about, "says": says}
        elif voter.ms_since_fetch > AWAY_MS:
            says = f"{who} is away: it has not fetched for {voter.ms_since_fetch / 1000:,.0f} s"
            yield {"what": "voter_away", **about, "says": says}
        elif voter.ms_since_caught_up < 0 or voter.ms_since_caught_up > LAG_MS:
            behind = max(0, quorum.log_end_offset - max(0, voter.log_end_offset))
            yield {"what": "voter_lags", **about, "says": f"{who} lags: it is {behind:,} records behind"}


def _no_leader(report: Report) -> dict[str, Any]:
    voters = sorted(voter.voter_id for voter in report.quorum.voters)
    running = {broker.broker for broker in report.brokers if broker.state in ("running", "leaving")}
    missing = [voter for voter in voters if voter not in running]
    if len(voters) - len(missing) > len(voters) // 2:
        says = "the metadata quorum has no leader although a majority of its voters responds: an election is under way"
        return {"what": "no_quorum_leader", "voters": voters, "says": says}
    names = ", ".join(map(str, missing))
    says = (
        f"the metadata quorum has no majority: {len(missing)} of {len(voters)} voters do not respond ({names}). "
        "Records are still served; metadata cannot change, and leaders cannot move, until a majority responds"
    )
    return {"what": "no_majority", "voters": voters, "missing": missing, "says": says}
