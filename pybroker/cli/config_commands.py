"""`pybroker configs`: settings of topics, brokers and groups, like Kafka's kafka-configs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import click

from pybroker.cli.grammar import VerbGroup, nearest
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.shell_completion import broker_ids, topic_names
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import no_topic
from pybroker.cli.topics.topic_arguments import parsed_id, topic_id_option

if TYPE_CHECKING:
    from pybroker.client import AdminClient, AlterConfigOp, ConfigEntry, ConfigResource
    from pybroker.native import Uuid

ENTITY_TYPES = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")
LOG_DIRS = "log.dirs"
"""The setting with a broker's data directories. It is shown even if it has its default value, with the directories that
the broker reports."""


@click.group(cls=VerbGroup)
def configs() -> None:
    """Show and change dynamic settings.

    Settings belong to topics, brokers, loggers, groups or client metrics.
    """


def entity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select a resource; the function gets it as `resource`: ConfigResource."""

    @click.option("--entity-type", type=click.Choice(ENTITY_TYPES), help="Kind of the entity; requires --entity-name.")
    @click.option("--entity-name", metavar="NAME", help="Topic or group name, or broker id.")
    @click.option(
        "--entity-default", is_flag=True, help="With --entity-type brokers: select the defaults of all brokers."
    )
    @click.option(
        "--topic", metavar="NAME", shell_complete=topic_names, help="Same as --entity-type topics --entity-name NAME."
    )
    @click.option(
        "--broker",
        metavar="ID",
        type=int,
        shell_complete=broker_ids,
        help="Same as --entity-type brokers --entity-name ID.",
    )
    @topic_id_option
    @functools.wraps(command)
    def with_resource(
        *args: object,
        entity_type: str | None,
        entity_name: str | None,
        entity_default: bool,
        topic: str | None,
        broker: int | None,
        topic_id: str | None,
        **rest: object,
    ) -> None:
        of_topic = topic if topic_id is None else parsed_id(topic_id)
        if topic is not None and topic_id is not None:
            raise click.UsageError("Use either a topic name or --topic-id, not both.")
        resource = _resource(entity_type, entity_name, entity_default, of_topic, broker)
        command(*args, resource=resource, **rest)

    return with_resource


@configs.command()
@click.option("--all", "everything", is_flag=True, help="Also show settings with default values.")
@broker_options
@entity_options
def describe(*, resource: ConfigResource, everything: bool, target: Target) -> None:
    """Show the settings that are set explicitly. For a broker also show where its data is."""
    run(_describe(target, resource, everything))


@configs.command()
@click.option(
    "--add-config", metavar="KEY=VALUE,…", help="Settings to set; put a value that contains commas in [brackets]."
)
@click.option("--delete-config", metavar="KEY,…", help="Settings to reset to their defaults.")
@broker_options
@entity_options
def alter(*, resource: ConfigResource, add_config: str | None, delete_config: str | None, target: Target) -> None:
    """Change settings of a running cluster."""
    changes = [*_set(add_config or ""), *_deleted(delete_config or "")]
    if not changes:
        raise click.UsageError("alter requires --add-config or --delete-config.")
    run(_alter(target, resource, changes))


def _resource(
    entity_type: str | None, entity_name: str | None, default: bool, topic: str | Uuid | None, broker: int | None
) -> ConfigResource:
    from pybroker.client import ConfigResource, ConfigResourceType

    named = [
        *([ConfigResource.topic(topic)] if topic is not None else []),
        *([ConfigResource.broker(broker)] if broker is not None else []),
    ]
    if entity_name is not None and entity_type == "topics":
        named.append(ConfigResource.topic(entity_name))
    elif entity_name is not None and entity_type in ("groups", "client-metrics"):
        kind = ConfigResourceType.GROUP if entity_type == "groups" else ConfigResourceType.CLIENT_METRICS
        named.append(ConfigResource(kind, entity_name))
    elif entity_name is not None and entity_type is not None:
        if not (entity_name.isascii() and entity_name.isdigit()):
            raise click.UsageError(f"--entity-name {entity_name}: a broker id must be a number.")
        kind = ConfigResourceType.BROKER if entity_type == "brokers" else ConfigResourceType.BROKER_LOGGER
        named.append(ConfigResource(kind, entity_name))
    elif default and entity_type == "brokers":
        named.append(ConfigResource.broker(""))
    elif entity_name is not None or default or entity_type is not None:
        raise click.UsageError("--entity-type requires --entity-name, or --entity-default for brokers.")
    if len(named) != 1:
        raise click.UsageError(
            "No entity given; use --topic NAME, --topic-id ID, --broker ID or --entity-type brokers --entity-default."
        )
    return named[0]


def split_settings(text: str) -> dict[str, str]:
    """Parse `a=1,b=[x,y]` of --add-config. Raises click.UsageError."""
    settings: dict[str, str] = {}
    rest = text
    while rest:
        name, equals, rest = rest.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--add-config {text}: expected KEY=VALUE,…")
        if rest.startswith("["):
            value, closed, rest = rest[1:].partition("]")
            if not closed or (rest and not rest.startswith(",")):
                raise click.UsageError(f"--add-config {text}: unclosed square bracket.")
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

    async with AdminClient(target.client_config()) as admin, _topic_named(admin, resource):
        await _check_broker(admin, resource)
        entries = await admin.describe_configs([resource]).values()[resource]
        if LOG_DIRS in entries and entries[LOG_DIRS].value is None:
            entries = {**entries, LOG_DIRS: await _where(admin, int(resource.name), entries[LOG_DIRS])}
    rows = [
        {
            "name": entry.name,
            "value": "(hidden)" if entry.sensitive else entry.value,
            "source": _source(entry.source),
            "read_only": entry.read_only,
        }
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or _shown(entry, resource)
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ["name", "value", "source", "read_only"])


async def _where(admin: AdminClient, broker: int, entry: ConfigEntry) -> ConfigEntry:
    """Return the setting with the broker's log directories as its value. If the caller may not describe log
    directories, return the setting unchanged.
    """
    from pybroker.errors import KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    try:
        directories = (await admin.describe_log_dirs([broker]))[broker]
    except KafkaError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return entry
    return dataclasses.replace(entry, value=",".join(sorted(directories)))


def _shown(entry: ConfigEntry, resource: ConfigResource) -> bool:
    """Return whether to show the setting without --all. It is shown if it is set for the topic or group itself, if it
    is set for the broker statically or dynamically, or if it has the broker's data directories.
    """
    from pybroker.client import ConfigResourceType, ConfigSource

    own = {
        ConfigResourceType.TOPIC: ConfigSource.TOPIC_CONFIG,
        ConfigResourceType.GROUP: ConfigSource.GROUP_CONFIG,
        ConfigResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    }
    if resource.type in own:
        return entry.source == own[resource.type]
    return entry.source != ConfigSource.DEFAULT_CONFIG or entry.name == LOG_DIRS


def _source(code: int) -> str:
    from pybroker.client import ConfigSource

    try:
        return ConfigSource(code).name.lower()
    except ValueError:
        return str(code)


@contextlib.asynccontextmanager
async def _topic_named(admin: AdminClient, resource: ConfigResource) -> AsyncIterator[None]:
    """If a request fails because the topic does not exist, explain in the error what happened to the topic."""
    from pybroker.client import ConfigResourceType, ErrorCode, KafkaError

    try:
        yield
    except KafkaError as error:
        absent = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        if resource.type is not ConfigResourceType.TOPIC or error.code not in absent:
            raise
        raise click.ClickException(await no_topic(admin, resource.topic_id or resource.name)) from None


async def _check_broker(admin: AdminClient, resource: ConfigResource) -> None:
    """Fail early if a broker is down. Only the broker itself returns its settings, and the client would wait a minute
    for it.
    """
    from pybroker.client import ConfigResourceType

    if resource.type not in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) or not resource.name:
        return
    brokers = sorted(node.id for node in (await admin.describe_cluster()).nodes)
    if int(resource.name) not in brokers:
        there = ", ".join(map(str, brokers))
        raise click.ClickException(f"There is no broker {resource.name}; running brokers: {there}.")


async def _check_deleted(admin: AdminClient, resource: ConfigResource, changes: list[AlterConfigOp]) -> None:
    """Raise click.ClickException if the request deletes a topic setting that does not exist. Brokers accept such a
    deletion without an error.
    """
    from pybroker.client import ConfigResourceType, ErrorCode, KafkaError, OpType

    deleted = [each.name for each in changes if each.op == OpType.DELETE]
    if not deleted or resource.type is not ConfigResourceType.TOPIC:
        return
    try:
        known = await admin.describe_configs([resource]).values()[resource]
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return  # The user may alter settings but not describe them.
    for name in deleted:
        if name not in known:
            raise click.ClickException(f"Unknown topic setting {name!r}{nearest(name, known)}")


async def _alter(target: Target, resource: ConfigResource, changes: list[AlterConfigOp]) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin, _topic_named(admin, resource):
        await _check_broker(admin, resource)
        await _check_deleted(admin, resource, changes)
        await admin.incremental_alter_configs({resource: changes})
    if target.json:
        kind = resource.type.name.lower()
        about = resource.name or (str(resource.topic_id) if resource.topic_id else "")
        write_json({"entity_type": kind, "entity_name": about, "changed": [each.name for each in changes]})
    else:
        about = resource.name or str(resource.topic_id or "all brokers")
        say(f"Changed {', '.join(change.name for change in changes)} of {about}.")
