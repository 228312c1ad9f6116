"""The grammar of all commands: a noun, a verb, the object's name, options.

`pybroker topics describe orders`, `pybroker topics describe --topic orders` and, like Kafka's tools, `pybroker topics
--describe --topic orders` are the same command.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from pybroker.cli.target import address_in_front, split_address
from pybroker.printable import printable

SYNONYMS = (("list", "ls"), ("describe", "show"), ("create", "add"), ("delete", "remove"), ("alter", "set"))
"""Synonymous verbs: a command with one of them accepts the others."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is used.

    `lazy` maps a command's name to `module:attribute` of its click command. The error for an unknown name suggests the
    nearest known name.
    """

    def __init__(self, *args: object, lazy: dict[str, str] | None = None, **settings: object) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]  # click's own, handed on as they are
        self.lazy = lazy or {}
        self.params.append(address_in_front())

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

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as problem:
            problem.message = printable(problem.message, keep="\n")  # type: ignore[misc]  # final for others
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            there = self.list_commands(ctx)
            near = nearest(args[0], there)
            if near == "." and isinstance(self, VerbGroup):
                near = f"; available commands: {', '.join(there)}."
            ctx.fail(f"There is no command {args[0]!r}{near}")
        return super().resolve_command(ctx, args)


class VerbGroup(LazyGroup):
    """The verbs of one noun. Each verb also works as an option, like in Kafka's tools."""

    def __init__(self, *args: object, **settings: Any) -> None:
        settings.setdefault("epilog", "Each command also works as an option, as in Kafka's tools: --list.")
        super().__init__(*args, **settings)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self._primary(ctx, cmd_name))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        address, rest = split_address(args)
        if address and not rest and not ctx.resilient_parsing:
            self._fail_without_verb(ctx)
        return super().parse_args(ctx, [*address, *self._verb_first(ctx, rest)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        verbs = (f"--{name}" for name in self.list_commands(ctx) if incomplete.startswith("-"))
        return [*found, *(CompletionItem(verb) for verb in verbs if verb.startswith(incomplete))]

    def _primary(self, ctx: click.Context, name: str) -> str:
        there = self.list_commands(ctx)
        if name in there:
            return name
        same = next((verbs for verbs in SYNONYMS if name in verbs), ())
        return next((verb for verb in same if verb in there), name)

    def _verb_first(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Turn `--topic a --describe` into `describe --topic a`."""
        there = self.list_commands(ctx)
        if not args or args[0] in ctx.help_option_names or self._primary(ctx, args[0]) in there:
            return args
        verbs = [each for each in args if each.startswith("--") and self._primary(ctx, each[2:]) in there]
        if len(set(verbs)) > 1:
            ctx.fail(f"Use only one of {' and '.join(dict.fromkeys(verbs))}.")
        if verbs:
            return [verbs[0][2:], *(each for each in args if each != verbs[0])]
        if args[0].startswith("-") and not ctx.resilient_parsing:
            option = args[0].partition("=")[0]
            if option in self._options(ctx, there):
                self._fail_without_verb(ctx)
            ctx.fail(f"There is no option {option!r}{nearest(option, [f'--{name}' for name in there])}")
        return args

    def _fail_without_verb(self, ctx: click.Context) -> NoReturn:
        ctx.fail(f"Missing command: {ctx.command_path} {'|'.join(self.list_commands(ctx))} …")

    def _options(self, ctx: click.Context, verbs: Iterable[str]) -> set[str]:
        """Return the names of all options of the verbs."""
        commands = (self.get_command(ctx, verb) for verb in verbs)
        return {name for command in commands if command for each in command.params for name in each.opts}


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message that suggests an existing name."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else "."


def named(
    parameter: str, metavar: str, what: str, *, required: bool = True, complete: Callable[..., Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the object's name, as an argument after the verb or as an option called `--parameter`.

    The function gets a text, or None if the name is not `required`. `complete` is a click completer.
    """
    option = f"--{parameter.replace('_', '-')}"

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.argument("named", metavar=f"[{metavar}]", required=False, shell_complete=complete)
        @click.option(option, "named_by_option", metavar=metavar, help=what, shell_complete=complete)
        @functools.wraps(command)
        def with_name(*args: object, named: str | None, named_by_option: str | None, **rest: object) -> None:
            values = [each for each in (named, named_by_option) if each is not None]
            if len(set(values)) > 1:
                raise click.UsageError(f"{metavar} is given twice: {values[0]} and {option} {values[1]}.")
            if required and not values:
                path = click.get_current_context().command_path
                raise click.UsageError(f"Missing argument: {path} {metavar} (or {option} {metavar}).")
            command(*args, **{parameter: values[0] if values else None}, **rest)

        return with_name

    return decorate
