"""The command line. Each command has its own module, which is imported only when the command is used. `pybroker start`
loads no module of another command.

- `grammar`: the syntax of commands: verbs, names, suggestions for mistyped words
- `target`, `options`, `output`: address, options and output of commands that talk to a running broker
- `local_broker`: settings of commands for a stopped broker
- `shell_completion`: shell completion
- `spark`: the common parts of commands that run Spark
- `records`: `produce` and `consume`
- `partitions`, `time_formats`: helpers of several commands
- all other modules: one command each
"""

from __future__ import annotations

import click

from pybroker.cli.grammar import LazyGroup

LAZY_COMMANDS: dict[str, str] = {
    "acls": "pybroker.cli.acl_commands:acls",
    "adopt": "pybroker.cli.adopt:adopt",
    "archive": "pybroker.cli.archive.archive_command:archive",
    "bench": "pybroker.cli.bench:bench",
    "cluster": "pybroker.cli.cluster:cluster",
    "completion": "pybroker.cli.shell_completion:completion",
    "configs": "pybroker.cli.config_commands:configs",
    "console": "pybroker.cli.console:console",
    "consume": "pybroker.cli.records.consume:consume",
    "diagnose": "pybroker.cli.diagnose.diagnose_command:diagnose",
    "doctor": "pybroker.cli.doctor.doctor_command:doctor",
    "groups": "pybroker.cli.groups:groups",
    "ingest": "pybroker.cli.ingest:ingest",
    "metadata": "pybroker.cli.metadata_commands:metadata",
    "produce": "pybroker.cli.records.produce:produce",
    "quotas": "pybroker.cli.quota_commands:quotas",
    "start": "pybroker.cli.start:start",
    "topics": "pybroker.cli.topics:topics",
    "transactions": "pybroker.cli.transaction_commands:transactions",
    "users": "pybroker.cli.user_commands:users",
}
"""Command → `module:attribute` of its click command."""


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
    """Run and manage pybroker, a broker for Apache Kafka's protocol."""
    from pybroker.cli.output import escape_warnings

    escape_warnings()
