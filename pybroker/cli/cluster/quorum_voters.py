"""`pybroker cluster quorum status | add | remove | transfer`: the voters of the metadata log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli import time_formats
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.shell_completion import broker_ids
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.client import AdminClient, KafkaError
    from pybroker.client.admin.quorum_admin import QuorumInfo, QuorumReplica


@click.command()
@broker_options
def status(target: Target) -> None:
    """Show the leader, the voters and the observers.

    The lag is the number of records that a replica lacks. The times are those of the replica's last fetch, and of the
    last moment at which it had every record. Without a leader, the table has what each voter knows of itself, and the
    command ends with 1.
    """
    run(_status(target))


@click.command()
@click.argument("broker", type=int, shell_complete=broker_ids)
@broker_options
def add(broker: int, target: Target) -> None:
    """Turn the observer BROKER into a voter."""
    run(_add(target, broker))


@click.command()
@click.argument("broker", type=int, shell_complete=broker_ids)
@broker_options
def remove(broker: int, target: Target) -> None:
    """Turn the voter BROKER into an observer.

    The broker keeps running and keeps its replicas. It becomes a voter again only by `add`.
    """
    run(_remove(target, broker))


@click.command()
@click.argument("broker", type=int, required=False, shell_complete=broker_ids)
@broker_options
def transfer(broker: int | None, target: Target) -> None:
    """Let the leader, which is the controller, resign in favour of BROKER.

    Without BROKER, the voter with the longest log is preferred.
    """
    run(_transfer(target, broker))


async def _status(target: Target) -> None:
    from pybroker.client import AdminClient, KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    async with AdminClient(target.client_config()) as admin:
        try:
            info = await admin.describe_metadata_quorum()
        except KafkaError as error:
            if error.code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                raise
            await _status_without_leader(target, admin, error)
            return
    rows = [*_rows(info, info.voters, "voter"), *_rows(info, info.observers, "observer")]
    if target.json:
        write_json(
            {
                "leader": info.leader_id,
                "epoch": info.leader_epoch,
                "high_watermark": info.high_watermark,
                "replicas": rows,
            }
        )
        return
    voters = len(info.voters)
    say(f"leader {info.leader_id}, epoch {info.leader_epoch}, high watermark {info.high_watermark}")
    say(f"{voters} voters, of which {voters // 2 + 1} are a majority; {len(info.observers)} observers")
    say()
    table(
        [{**row, "last_fetch": _time(row["last_fetch_ms"]), "caught_up": _time(row["caught_up_ms"])} for row in rows],
        ["broker", "role", "lag", "log_end", "last_fetch", "caught_up", "directory_id", "addresses"],
    )


async def _status_without_leader(target: Target, admin: AdminClient, error: KafkaError) -> None:
    """Print what the brokers that answer know of the quorum. Without a majority an operator chooses the voter with the
    highest epoch and log end for `recover`."""
    from pybroker.cli.cluster.cluster_report import collect

    report = await collect(admin)
    if report.quorum is None or report.quorum.role == "Leader":
        raise error
    voters = {voter.voter_id for voter in report.quorum.voters}
    rows = []
    for broker in sorted(voters | set(report.quorum_views)):
        view = report.quorum_views.get(broker)
        rows.append(
            {
                "broker": broker,
                "role": "voter" if broker in voters else "observer",
                "answers": view is not None,
                "epoch": None if view is None else view.epoch,
                "log_end": None if view is None else view.log_end_offset,
            }
        )
    answering = len(voters & set(report.quorum_views))
    if target.json:
        write_json({"leader": None, "epoch": report.quorum.epoch, "high_watermark": None, "replicas": rows})
    else:
        say(f"no leader; {answering} of {len(voters)} voters answer, {len(voters) // 2 + 1} are a majority")
        say()
        table(rows, ["broker", "role", "answers", "epoch", "log_end"])
    raise click.ClickException("The metadata quorum has no leader. `pybroker cluster health` shows the effects.")


def _rows(info: QuorumInfo, replicas: Sequence[QuorumReplica], role: str) -> list[dict[str, Any]]:
    end = next((voter.log_end_offset for voter in info.voters if voter.replica_id == info.leader_id), -1)
    return [
        {
            "broker": replica.replica_id,
            "role": "leader" if role == "voter" and replica.replica_id == info.leader_id else role,
            "directory_id": str(replica.directory_id),
            "log_end": replica.log_end_offset if replica.log_end_offset >= 0 else None,
            "lag": max(0, end - replica.log_end_offset) if end >= 0 <= replica.log_end_offset else None,
            "last_fetch_ms": replica.last_fetch_timestamp,
            "caught_up_ms": replica.last_caught_up_timestamp,
            "addresses": [f"{address.host}:{address.port}" for address in replica.addresses],
        }
        for replica in sorted(replicas, key=lambda replica: replica.replica_id)
    ]


def _time(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else time_formats.text(timestamp_ms)


async def _add(target: Target, broker: int) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        info = await admin.describe_metadata_quorum()
        replica = _find(info.observers, broker)
        if replica is None:
            other = _find(info.voters, broker)
            raise click.ClickException(f"Broker {broker} is {'a voter already' if other else 'no observer'}.")
        await admin.add_raft_voter(broker, replica.directory_id, replica.addresses)
    _report(target, f"Broker {broker} is a voter now.", added=broker)


async def _remove(target: Target, broker: int) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        replica = _find((await admin.describe_metadata_quorum()).voters, broker)
        if replica is None:
            raise click.ClickException(f"Broker {broker} is no voter.")
        await admin.remove_raft_voter(broker, replica.directory_id)
    _report(target, f"Broker {broker} is no voter any more.", removed=broker)


async def _transfer(target: Target, broker: int | None) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await admin.transfer_quorum_leader(broker)
        leader = (await admin.describe_metadata_quorum()).leader_id
    _report(target, f"Broker {leader} leads now.", leader=leader)


def _find(replicas: Sequence[QuorumReplica], broker: int) -> QuorumReplica | None:
    return next((replica for replica in replicas if replica.replica_id == broker), None)


def _report(target: Target, text: str, **outcome: int) -> None:
    if target.json:
        write_json(outcome)
    else:
        say(text)
