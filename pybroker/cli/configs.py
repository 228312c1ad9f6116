"""`pybroker configs`: settings of topics and brokers, in the manner of kafka-configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pybroker.cli.options import Target, broker_options, run, table, write_json

if TYPE_CHECKING:
    from pybroker.client import AdminClient, AlterConfigOp, ConfigEntry, ConfigResource

ENTITY_TYPES = ("topics", "brokers")


@click.command()
@click.option("--describe", is_flag=True, help="Show settings.")
@click.option("--alter", is_flag=True, help="Change settings while the broker runs.")
@click.option("--entity-type", type=click.Choice(ENTITY_TYPES), help="Whose settings; with --entity-name.")
@click.option("--entity-name", metavar="NAME", help="A topic's name or a broker's id.")
@click.option("--entity-default", is_flag=True, help="With --entity-type brokers: the defaults of all brokers.")
@click.option("--topic", metavar="NAME", help="Short for --entity-type topics --entity-name NAME.")
@click.option("--broker", metavar="ID", type=int, help="Short for --entity-type brokers --entity-name ID.")
@click.option("--all", "everything", is_flag=True, help="With --describe: also what nobody has set.")
@click.option("--add-config", metavar="KEY=VALUE,…", help="Settings to set; a value with a comma in square brackets.")
@click.option("--delete-config", metavar="KEY,…", help="Settings to take back.")
@broker_options
def configs(
    *,
    describe: bool,
    alter: bool,
    entity_type: str | None,
    entity_name: str | None,
    entity_default: bool,
    topic: str | None,
    broker: int | None,
    everything: bool,
    add_config: str | None,
    delete_config: str | None,
    target: Target,
) -> None:
    """Show and change settings of topics and brokers."""
    if describe == alter:
        raise click.UsageError("Say --describe or --alter.")
    resource = _resource(entity_type, entity_name, entity_default, topic, broker)
    if describe:
        if add_config is not None or delete_config is not None:
            raise click.UsageError("--add-config and --delete-config belong to --alter.")
        run(_describe(target, resource, everything))
        return
    changes = [*_set(add_config or ""), *_deleted(delete_config or "")]
    if not changes:
        raise click.UsageError("--alter needs --add-config or --delete-config.")
    run(_alter(target, resource, changes))


def _resource(
    entity_type: str | None, entity_name: str | None, default: bool, topic: str | None, broker: int | None
) -> ConfigResource:
    from pybroker.client import ConfigResource

    named = [
        *([ConfigResource.topic(topic)] if topic is not None else []),
        *([ConfigResource.broker(broker)] if broker is not None else []),
    ]
    if entity_name is not None and entity_type == "topics":
        named.append(ConfigResource.topic(entity_name))
    elif entity_name is not None and entity_type == "brokers":
        if not (entity_name.isascii() and entity_name.isdigit()):
            raise click.UsageError(f"--entity-name {entity_name}: a broker's id is a number.")
        named.append(ConfigResource.broker(entity_name))
    elif default and entity_type == "brokers":
        named.append(ConfigResource.broker(""))
    elif entity_name is not None or default or entity_type is not None:
        raise click.UsageError("--entity-type topics needs --entity-name; brokers that or --entity-default.")
    if len(named) != 1:
        raise click.UsageError(
            "Say whose settings: --topic NAME, --broker ID or --entity-type brokers --entity-default."
        )
    return named[0]


def split_settings(text: str) -> dict[str, str]:
    """`a=1,b=[x,y]`: what --add-config takes. Raises click.UsageError."""
    settings: dict[str, str] = {}
    rest = text
    while rest:
        name, equals, rest = rest.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--add-config {text}: expected KEY=VALUE,…")
        if rest.startswith("["):
            value, closed, rest = rest[1:].partition("]")
            if not closed or (rest and not rest.startswith(",")):
                raise click.UsageError(f"--add-config {text}: a square bracket that does not close.")
            rest = rest.removeprefix(",")
        else:
            value, _, rest = rest.partition(",")
        settings[name.strip()] = value
    return settings


def _set(text: str) -> list[AlterConfigOp]:
    from pybroker.client import AlterConfigOp

    return [AlterConfigOp(name, value) for name, value in split_settings(text).items()]


def _deleted(text: str) -> list[AlterConfigOp]:
    from pybroker.client import AlterConfigOp, OpType

    return [AlterConfigOp(name.strip(), None, OpType.DELETE) for name in text.split(",") if name.strip()]


async def _describe(target: Target, resource: ConfigResource, everything: bool) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await _check_broker(admin, resource)
        entries: Mapping[str, ConfigEntry] = await admin.describe_configs([resource]).values()[resource]
    rows = [
        {
            "name": entry.name,
            "value": "(hidden)" if entry.sensitive else entry.value,
            "source": _source(entry.source),
            "read_only": entry.read_only,
        }
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or _set_by_somebody(entry, resource)
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ["name", "value", "source", "read_only"])


def _set_by_somebody(entry: ConfigEntry, resource: ConfigResource) -> bool:
    """Set for a topic itself, or while the broker runs, as kafka-configs shows without --all."""
    from pybroker.client import ConfigResourceType, ConfigSource

    if resource.type == ConfigResourceType.TOPIC:
        return entry.source == ConfigSource.TOPIC_CONFIG
    return entry.source in (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def _source(code: int) -> str:
    from pybroker.client import ConfigSource

    try:
        return ConfigSource(code).name.lower()
    except ValueError:
        return str(code)


async def _check_broker(admin: AdminClient, resource: ConfigResource) -> None:
    """A broker is asked itself, and the client waits a minute for one that is not there."""
    from pybroker.client import ConfigResourceType

    if resource.type != ConfigResourceType.BROKER or not resource.name:
        return
    brokers = sorted(node.id for node in (await admin.describe_cluster()).nodes)
    if int(resource.name) not in brokers:
        there = ", ".join(map(str, brokers))
        raise click.ClickException(f"There is no broker {resource.name} at the moment; there are: {there}.")


async def _alter(target: Target, resource: ConfigResource, changes: list[AlterConfigOp]) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await _check_broker(admin, resource)
        await admin.incremental_alter_configs({resource: changes})
    if target.json:
        write_json({"entity": resource.name, "changed": [change.name for change in changes]})
    else:
        click.echo(f"Changed {', '.join(change.name for change in changes)} of {resource.name or 'all brokers'}.")
