"""The command line. Each command's code is imported when it runs, so that `pybroker start` pays for nothing
else.
"""

from __future__ import annotations

import importlib

import click

LAZY_COMMANDS: dict[str, str] = {}
"""Command → `module:attribute` of its click command. Commands that talk to a running broker are registered
here.
"""


class LazyGroup(click.Group):
    """A group that imports a command only when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LAZY_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = LAZY_COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), place
        return command


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from pybroker.version import version

        click.echo(f"pybroker {version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def cli() -> None:
    """A broker that speaks Apache Kafka's protocol."""


@cli.command()
@click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="Settings, one key=value a line, as in Kafka's server.properties.",
)
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting; goes over the file. May be repeated."
)
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--parent-fd", type=int, hidden=True)
def start(file: str | None, assignments: tuple[str, ...], ready_fd: int | None, parent_fd: int | None) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Without settings: data in ./pybroker-data, clients at 127.0.0.1:9092.
    """
    from pybroker.foreground import start_command

    raise SystemExit(start_command(file, assignments, ready_fd, parent_fd))
