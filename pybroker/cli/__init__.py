"""The command line. Each command has its own file, which is imported when the command is named, so that
`pybroker start` pays for nothing else.
"""

from __future__ import annotations

import importlib

import click

LAZY_COMMANDS: dict[str, str] = {
    "acls": "pybroker.cli.acls:acls",
    "adopt": "pybroker.cli.adopt:adopt",
    "archive": "pybroker.cli.archive:archive",
    "cluster": "pybroker.cli.cluster:cluster",
    "ingest": "pybroker.cli.ingest:ingest",
    "configs": "pybroker.cli.configs:configs",
    "groups": "pybroker.cli.groups:groups",
    "start": "pybroker.cli.start:start",
    "topics": "pybroker.cli.topics:topics",
    "users": "pybroker.cli.users:users",
}
"""Command → `module:attribute` of its click command."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is named.

    `lazy` maps a command's name to `module:attribute` of its click command, as `LAZY_COMMANDS` does.
    """

    def __init__(self, *args: object, lazy: dict[str, str] | None = None, **settings: object) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]  # click's own, handed on as they are
        self.lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.lazy])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.lazy.get(cmd_name)
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


@click.group(cls=LazyGroup, lazy=LAZY_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def cli() -> None:
    """A broker that speaks Apache Kafka's protocol."""
