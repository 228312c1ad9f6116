"""`pybroker quotas`: quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pybroker.cli.grammar import VerbGroup
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import table, write_json
from pybroker.cli.target import Target

NAMES = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


@click.group(cls=VerbGroup)
def quotas() -> None:
    """Manage client quotas.

    \b
    pybroker quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
    pybroker quotas set --user-default --client-id etl request_percentage=50
    pybroker quotas remove --user alice producer_byte_rate
    pybroker quotas list
    """


def entity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select the entity of quotas."""
    for kind, what in (("ip", "address"), ("client-id", "client id"), ("user", "user")):
        command = click.option(
            f"--{kind}-default", is_flag=True, help=f"Select the default for each {what} without a quota of its own."
        )(command)
        command = click.option(f"--{kind}", metavar="NAME", help=f"Select this {what}.")(command)
    return command


@quotas.command("list")
@entity_options
@broker_options
def list_quotas(target: Target, **options: Any) -> None:
    """List all quotas, or those of one entity."""
    from pybroker.client import AdminClient

    entity = _entity(options)

    async def work() -> Any:
        async with AdminClient(target.client_config()) as admin:
            return await admin.describe_client_quotas(entity)

    _show(run(work()), target)


@quotas.command("set")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@entity_options
@broker_options
def set_quotas(target: Target, values: tuple[str, ...], **options: Any) -> None:
    """Set quotas of an entity; its other quotas stay."""
    _alter(target, options, dict(_assignment(text) for text in values))


@quotas.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@entity_options
@broker_options
def remove(target: Target, names: tuple[str, ...], **options: Any) -> None:
    """Remove quotas of an entity; without names remove all of them."""
    _alter(target, options, {_known(name): None for name in names})


def _assignment(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return _known(name), float(value)
    except ValueError:
        raise click.UsageError(f"Invalid quota {text!r}; expected NAME=NUMBER.") from None


def _known(name: str) -> str:
    if name not in NAMES:
        raise click.UsageError(f"Unknown quota {name!r}; valid quotas: {', '.join(NAMES)}.")
    return name


def _entity(options: dict[str, Any]) -> Any:
    from pybroker.client import QuotaEntity

    parts: dict[str, str] = {}
    for kind in ("user", "client_id", "ip"):
        name, default = options[kind], options[f"{kind}_default"]
        if name is not None and default:
            option = kind.replace("_", "-")
            raise click.UsageError(f"Use either --{option} or --{option}-default, not both.")
        if name is not None or default:
            parts[kind] = name or ""
    return QuotaEntity(**parts) if parts else None


def _alter(target: Target, options: dict[str, Any], values: dict[str, float | None]) -> None:
    from pybroker.client import AdminClient

    entity = _entity(options)
    if entity is None:
        raise click.UsageError("No entity given; use --user, --client-id, --ip or one of their -default options.")

    async def work() -> Any:
        async with AdminClient(target.client_config()) as admin:
            known = await admin.describe_client_quotas(entity)
            wanted = values or dict.fromkeys(name for row in known for name in row.limits)
            await admin.alter_client_quotas({entity: wanted})
            return await admin.describe_client_quotas(entity)

    _show(run(work()), target)


def _show(found: list[Any], target: Target) -> None:
    rows = [
        {**dict.fromkeys(("user", "client-id", "ip")), **_parts(row.entity), "quota": name, "value": value}
        for row in found
        for name, value in row.limits.items()
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ("user", "client-id", "ip", "quota", "value"))


def _parts(entity: dict[str, str | None]) -> dict[str, str]:
    return {kind: "<default>" if name is None else name for kind, name in entity.items()}
