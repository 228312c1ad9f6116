"""`pybroker cluster drain | balance`: show the plan, then move replicas."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

import click

from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say
from pybroker.cli.shell_completion import broker_ids
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.broker.admin.placement_plans import Plan
    from pybroker.cli.cluster.plan_execution import Layout


def _move_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that move replicas; the function gets `target`, and the rest as `how`."""

    @click.option("--dry-run", is_flag=True, help="Show the plan without changing anything.")
    @click.option("--yes", is_flag=True, help="Skip the confirmation.")
    @click.option("--wait", "waits", is_flag=True, help="Wait until all replicas have moved, and show progress.")
    @click.option("--timeout", "timeout_s", type=float, metavar="SECONDS", help="Limit of --wait.")
    @broker_options
    @wraps(command)
    def with_options(
        *args: object, dry_run: bool, yes: bool, waits: bool, timeout_s: float | None, **rest: object
    ) -> None:
        if timeout_s is not None and not waits:
            raise click.UsageError("--timeout requires --wait.")
        command(*args, how=_PlanOptions(dry_run, yes, waits, timeout_s), **rest)

    return with_options


class _PlanOptions:
    """How to execute a plan."""

    def __init__(self, dry_run: bool, yes: bool, waits: bool, timeout_s: float | None) -> None:
        self.dry_run = dry_run
        self.yes = yes
        self.waits = waits
        self.timeout_s = timeout_s


@click.command()
@click.argument("broker", type=int, shell_complete=broker_ids)
@_move_options
def drain(broker: int, *, how: _PlanOptions, target: Target) -> None:
    """Move all replicas off BROKER.

    Use it before removing a broker, running or not.

    Each replica moves to the broker with the fewest replicas, preferably to a rack that the partition does not use yet.
    Leadership moves with the replicas. While BROKER runs, new topics may still be placed on it.
    """

    def planned(layout: Layout) -> Plan:
        from pybroker.broker.admin.placement_plans import drain as plan

        known = {candidate.broker_id for candidate in layout.brokers} | {
            each for partition in layout.partitions for each in partition.replicas
        }
        if broker not in known:
            raise click.ClickException(f"There is no broker {broker}.")
        return plan(layout.partitions, layout.brokers, [broker])

    run(_carry_out(target, how, planned))


@click.command()
@click.option(
    "--replication-factor",
    "factor",
    type=click.IntRange(min=1),
    help="Raise topics with fewer replicas to this number; never lower a topic's number.",
)
@_move_options
def balance(*, factor: int | None, how: _PlanOptions, target: Target) -> None:
    """Spread replicas and leaders evenly.

    Uses the running brokers and their racks.

    The plan moves as few bytes as possible. Internal topics with fewer replicas than the brokers' settings require
    (one after `pybroker metadata migrate`) get the configured number.
    """

    def planned(layout: Layout) -> Plan:
        from pybroker.broker.admin.placement_plans import balance as plan
        from pybroker.broker.admin.placement_plans import replicate
        from pybroker.cli.cluster.plan_execution import after, between

        has: dict[str, int] = {}
        for partition in layout.partitions:
            has[partition.topic] = max(has.get(partition.topic, 0), len(partition.replicas))
        wanted = {name: min(number, len(layout.brokers)) for name, number in layout.replicas_wanted.items()}
        if factor is not None:
            wanted |= {name: factor for name, number in has.items() if max(number, wanted.get(name, 0)) < factor}
        raised = {name: number for name, number in wanted.items() if number > has[name]}
        more = after(layout.partitions, replicate(layout.partitions, layout.brokers, raised))
        return between(layout.partitions, after(more, plan(more, layout.brokers)))

    run(_carry_out(target, how, planned))


async def _carry_out(target: Target, how: _PlanOptions, planned: Callable[[Layout], Plan]) -> None:
    from pybroker.broker.admin.placement_plans import PlanError
    from pybroker.cli.cluster.plan_execution import begin, read_layout, show_plan, wait, write_plan
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        try:
            plan = planned(await read_layout(admin))
        except PlanError as problem:
            raise click.ClickException(f"{problem}.") from None
        executed = bool(plan) and not how.dry_run
        if not target.json:
            if not plan:
                say("All replicas are already in place.")
                return
            show_plan(plan)
        if executed:
            if not how.yes:
                click.confirm("Move these replicas?", abort=True, err=True)
            await begin(admin, plan)
            if how.waits:
                await wait(admin, plan, how.timeout_s, silent=target.json)
        if target.json:
            write_plan(plan, executed=executed)
        elif executed:
            say("Moved." if how.waits else "Started. `pybroker cluster describe` shows the replicas that still move.")
