"""The command line of `pybroker doctor`, its table and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pybroker.cli.doctor.finding import Finding, FindingState, bad, warn, worst
from pybroker.cli.local_broker import settings_options
from pybroker.cli.options import refusals_told
from pybroker.cli.output import write_json
from pybroker.cli.target import address_option, target_of
from pybroker.printable import printable

if TYPE_CHECKING:
    from pybroker.config import BrokerConfig

SETTINGS = "settings"
STYLES = {FindingState.OK: "green", FindingState.WARN: "yellow", FindingState.BAD: "bold red"}


@click.command()
@settings_options("Settings file of a broker on this machine.")
@address_option("Check these running brokers instead of this machine; add --config to check both.")
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Client settings file: Kafka's names, one key=value per line.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 also for warnings.")
@click.option("--json", "as_json", is_flag=True, help="Write the output as JSON.")
def doctor(
    file: str | None,
    assignments: tuple[str, ...],
    bootstrap_server: str | None,
    command_config: Path | None,
    *,
    strict: bool,
    as_json: bool,
) -> None:
    """Check a broker for risks.

    The checks find risks to data, security and availability. They change nothing.

    On this machine, before a start or beside a running broker: settings (--config; default: those of a plain `pybroker
    start`), open-file limits, disks, clock, memory, file permissions, ids, ports, and ZooKeeper or the voters of the
    metadata quorum. For running brokers (--bootstrap-server): settings, disks, health and topics.

    The exit code is 1 if a finding is bad.
    """
    found: list[Finding] = []
    with refusals_told():
        if bootstrap_server is None or file is not None or assignments:
            found += machine_and_settings(file, assignments)
        if bootstrap_server is not None:
            from pybroker.cli.doctor.broker_checks import running

            target = target_of(bootstrap_server, command_config, json=as_json)
            found += asyncio.run(running(bootstrap_server, target.client_config()))
    state = worst(found)
    if as_json:
        write_json({"healthy": state is not FindingState.BAD, "checks": [each.document() for each in found]})
    else:
        _show(found)
    if state is FindingState.BAD or (strict and state is FindingState.WARN):
        raise SystemExit(1)


def machine_and_settings(file: str | None, assignments: tuple[str, ...]) -> list[Finding]:
    """Return all findings that need no running broker."""
    from pybroker.config import ConfigError, load_config

    try:
        loaded = load_config(file, assignments, stores=True)
    except ConfigError as problem:
        return [
            bad(SETTINGS, each, "fix it: `pybroker start` fails with the same error; see docs/operations.md")
            for each in problem.problems
        ]
    found = [warn(SETTINGS, each, "remove it, or see docs/operations.md") for each in loaded.warnings]
    found += _local(file, loaded.config)
    if loaded.config.in_quorum:
        from pybroker.cli.doctor.quorum_checks import quorum

        found += asyncio.run(quorum(loaded.config))
    elif loaded.config.in_cluster:
        found += asyncio.run(_of_zookeeper(loaded.config))
    return found


def _local(file: str | None, config: BrokerConfig) -> Iterator[Finding]:
    from pybroker.cli.doctor import address_checks, disk_checks, machine_checks, setting_checks

    texts = effective_settings(config)
    # The number of brokers in the cluster is unknown here. Assume three, so that the findings are right for three or
    # more.
    yield from setting_checks.check(texts, brokers=3 if config.in_cluster else 1)
    yield from machine_checks.open_files(texts, disk_checks.partitions_in(config.log_dirs))
    yield from disk_checks.disks(config.log_dirs)
    yield from machine_checks.memory()
    yield from machine_checks.clock(disk_checks.files_of(config.log_dirs))
    yield from disk_checks.rights(file, config)
    yield from disk_checks.ids(config)
    yield from disk_checks.last_stop(config.log_dirs)
    yield from address_checks.ports(config)


def effective_settings(config: BrokerConfig) -> dict[str, str]:
    """Return the effective settings as texts, as in DescribeConfigs, including the settings of single listeners."""
    from pybroker.config import render_value

    texts = {name: text for name, value in config.items() if (text := render_value(value)) is not None}
    if config.between_brokers is not None:
        texts["inter.broker.listener.name"] = config.between_brokers
    return {**texts, **config.listener_settings}


async def _of_zookeeper(config: BrokerConfig) -> list[Finding]:
    from pybroker.cli.doctor.store_checks import zookeeper

    return [each async for each in zookeeper(config)]


def _show(found: list[Finding]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    width = max((len(each.what) for each in found), default=0)
    for each in found:
        said = Text(f"{each.what.ljust(width)}  {printable(each.says)}")
        console.print(Text(each.state.value.ljust(6), STYLES[each.state]) + said)
        if each.advice is not None:
            console.print(Text(f"{'':{width + 8}}{printable(each.advice)}", "dim"))
    bads, warns = (sum(each.state is state for each in found) for state in (FindingState.BAD, FindingState.WARN))
    console.print(f"{len(found)} checks: {bads} bad, {warns} warnings")
