"""Shell completion, and `pybroker completion`, which sets it up.

Names of topics, groups and brokers come from the broker that the command line names. If the broker does not respond
quickly, there are no suggestions. There is no error message either, because it would disturb the line that the user
types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from pybroker.cli.options import refusals
from pybroker.cli.target import target_of
from pybroker.printable import printable

if TYPE_CHECKING:
    from pybroker.client import AdminClient

SHELLS = ("bash", "fish", "zsh")
ANSWER_WITHIN_S = 3.0
VARIABLE = "_PYBROKER_COMPLETE"
"""The environment variable that the shell sets for a completion; click's name for a program called pybroker."""

Asked = Callable[["AdminClient"], Awaitable[Iterable[CompletionItem]]]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a shell completion script.

    It completes commands, options, and names of topics and groups.

    \b
    bash:  eval "$(pybroker completion bash)"        in ~/.bashrc
    zsh:   eval "$(pybroker completion zsh)"         in ~/.zshrc, after compinit
    fish:  pybroker completion fish > ~/.config/fish/completions/pybroker.fish
    """
    made = get_completion_class(shell)
    assert made is not None, "the shells above are those that click knows"
    root = click.get_current_context().find_root().command
    click.echo(made(root, {}, "pybroker", VARIABLE).source())


def topic_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of topics. Internal topics are suggested only after `__`."""

    async def ask(admin: AdminClient) -> Iterable[CompletionItem]:
        listed = await admin.list_topics(list_internal=incomplete.startswith("_"))
        return [CompletionItem(name) for name in listed]

    return _offered(ctx, incomplete, ask)


def topic_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ids of topics, with their names as help."""

    async def ask(admin: AdminClient) -> Iterable[CompletionItem]:
        listed = (await admin.list_topics(list_internal=False)).listings()
        return [CompletionItem(str(each.topic_id), help=each.name) for each in listed if each.topic_id]

    return _offered(ctx, incomplete, ask)


def deleted_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ids of deleted topics that can be undeleted, with their former names as help."""

    async def ask(admin: AdminClient) -> Iterable[CompletionItem]:
        return [CompletionItem(str(each.topic_id), help=each.name) for each in await admin.describe_deletions()]

    return _offered(ctx, incomplete, ask)


def group_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of consumer groups."""

    async def ask(admin: AdminClient) -> Iterable[CompletionItem]:
        return [CompletionItem(each.group_id) for each in await admin.list_groups()]

    return _offered(ctx, incomplete, ask)


def transactional_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete transactional ids, with their states as help."""

    async def ask(admin: AdminClient) -> Iterable[CompletionItem]:
        listed = await admin.list_transactions()
        return [CompletionItem(each.transactional_id, help=each.state) for each in listed]

    return _offered(ctx, incomplete, ask)


def broker_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ids of live brokers, with their addresses as help."""

    async def ask(admin: AdminClient) -> Iterable[CompletionItem]:
        nodes = (await admin.describe_cluster()).nodes
        return [CompletionItem(str(node.id), help=f"{node.host}:{node.port}") for node in nodes]

    return _offered(ctx, incomplete, ask)


def _offered(ctx: click.Context, incomplete: str, ask: Asked) -> list[CompletionItem]:
    from pybroker.client import AdminClient

    typed: dict[str, Any] = ctx.params

    async def work() -> Iterable[CompletionItem]:
        target = target_of(typed.get("bootstrap_server"), _path(typed.get("command_config")), json=False)
        async with asyncio.timeout(ANSWER_WITHIN_S), AdminClient(target.client_config()) as admin:
            return await ask(admin)

    silent: tuple[type[Exception], ...] = (*refusals(), click.ClickException)
    try:
        found = asyncio.run(work())
    except silent:
        return []
    fitting = (each for each in found if each.value.startswith(incomplete) and printable(each.value) == each.value)
    return sorted(fitting, key=lambda each: str(each.value))


def _path(text: str | Path | None) -> Path | None:
    return None if text is None else Path(text)
