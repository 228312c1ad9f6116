"""`pybroker topics`: in the manner of kafka-topics, and what topic ids add."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli import LazyGroup
from pybroker.cli.options import Target, broker_options, run, write_json

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicDescription
    from pybroker.native import Uuid

SUBCOMMANDS: dict[str, str] = {
    "deletions": "pybroker.cli.lineage:deletions",
    "history": "pybroker.cli.lineage:history",
    "truncate": "pybroker.cli.lineage:truncate",
    "undelete": "pybroker.cli.lineage:undelete",
}
"""Subcommand → `module:attribute` of its click command."""

ACTIONS = ("list", "describe", "create", "delete", "alter")
Names = Sequence[str]


@click.group(cls=LazyGroup, lazy=SUBCOMMANDS, invoke_without_command=True)
@click.option("--list", "list_", is_flag=True, help="List topics.")
@click.option("--describe", is_flag=True, help="Show topics with their ids, partitions and settings.")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--delete", is_flag=True, help="Delete a topic.")
@click.option("--alter", is_flag=True, help="Give a topic more partitions.")
@click.option("--topic", metavar="NAME", help="The topic; with --list and --describe a regular expression.")
@click.option(
    "--topic-id",
    "--topic_id",
    "topic_id",
    metavar="ID",
    help="The topic by its id: exactly that one, whatever has its name now. Goes before --topic.",
)
@click.option("--partitions", type=click.IntRange(min=1), help="How many; else the broker's num.partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Else the broker's default.replication.factor.")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of a new topic.")
@click.option("--if-exists", is_flag=True, help="With --describe, --delete, --alter: nothing to do is no failure.")
@click.option("--if-not-exists", is_flag=True, help="With --create: a topic that is there is no failure.")
@click.option("--exclude-internal", is_flag=True, help="With --list, --describe: without the broker's own topics.")
@broker_options
@click.pass_context
def topics(
    ctx: click.Context,
    *,
    list_: bool,
    describe: bool,
    create: bool,
    delete: bool,
    alter: bool,
    topic: str | None,
    topic_id: str | None,
    partitions: int | None,
    replication_factor: int | None,
    configs: Names,
    if_exists: bool,
    if_not_exists: bool,
    exclude_internal: bool,
    target: Target,
) -> None:
    """List, describe, create, delete and alter topics."""
    chosen = [name for name, on in zip(ACTIONS, (list_, describe, create, delete, alter), strict=True) if on]
    if ctx.invoked_subcommand is not None:
        typed = click.core.ParameterSource.COMMANDLINE
        if any(ctx.get_parameter_source(name) == typed for name in ctx.params):
            raise click.UsageError(f"Options go behind the command: pybroker topics {ctx.invoked_subcommand} …")
        return
    if len(chosen) != 1:
        raise click.UsageError("Say one of " + ", ".join(f"--{name}" for name in ACTIONS) + ", or a command.")
    (action,) = chosen
    allowed = {
        "--partitions": (partitions is not None, ("create", "alter")),
        "--replication-factor": (replication_factor is not None, ("create",)),
        "--config": (bool(configs), ("create",)),
        "--topic-id": (topic_id is not None, ("describe", "delete")),
        "--if-exists": (if_exists, ("describe", "delete", "alter")),
        "--if-not-exists": (if_not_exists, ("create",)),
        "--exclude-internal": (exclude_internal, ("list", "describe")),
    }
    for option, (given, actions) in allowed.items():
        if given and action not in actions:
            raise click.UsageError(f"{option} has no meaning with --{action}.")
    if action in ("create", "delete", "alter") and topic is None and topic_id is None:
        raise click.UsageError(f"--{action} needs a --topic{' or a --topic-id' if action == 'delete' else ''}.")
    match action:
        case "list":
            run(_list(target, topic, exclude_internal))
        case "describe":
            run(_describe(target, topic, _parsed(topic_id), exclude_internal, if_exists))
        case "create":
            assert topic is not None
            new = {"partitions": partitions, "replication_factor": replication_factor}
            run(_create(target, topic, **new, settings=_settings(configs), if_not_exists=if_not_exists))
        case "delete":
            if topic is not None and topic_id is not None:
                raise click.UsageError("--delete takes --topic or --topic-id, not both: what is gone is gone.")
            run(_delete(target, topic, _parsed(topic_id), if_exists))
        case "alter":
            assert topic is not None
            if partitions is None:
                raise click.UsageError("--alter needs --partitions; settings are changed by pybroker configs.")
            run(_alter(target, topic, partitions, if_exists))


def _parsed(topic_id: str | None) -> Uuid | None:
    if topic_id is None:
        return None
    from pybroker.native import Uuid

    try:
        return Uuid.parse(topic_id)
    except ValueError as error:
        raise click.UsageError(f"--topic-id: {error}") from None


def _settings(pairs: Names) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--config {pair}: expected KEY=VALUE")
        settings[name] = value
    return settings


def _pattern(topic: str | None) -> re.Pattern[str] | None:
    if topic is None:
        return None
    try:
        return re.compile(topic)
    except re.error as error:
        raise click.UsageError(f"--topic {topic}: not a regular expression: {error}") from None


async def _list(target: Target, topic: str | None, exclude_internal: bool) -> None:
    from pybroker.client import AdminClient

    pattern = _pattern(topic)
    async with AdminClient(target.client_config()) as admin:
        found = (await admin.list_topics(list_internal=not exclude_internal)).listings()
    rows = [
        {"topic": each.name, "topic_id": str(each.topic_id) if each.topic_id else None, "internal": each.internal}
        for each in sorted(found, key=lambda each: each.name)
        if pattern is None or pattern.fullmatch(each.name)
    ]
    if target.json:
        write_json(rows)
        return
    for row in rows:
        click.echo(row["topic"])


async def _describe(
    target: Target, topic: str | None, topic_id: Uuid | None, exclude_internal: bool, if_exists: bool
) -> None:
    from pybroker.client import AdminClient

    if topic is not None and topic_id is not None:
        click.echo("Both --topic and --topic-id are given: only the id is used.", err=True)
    pattern = _pattern(topic)
    async with AdminClient(target.client_config()) as admin:
        if topic_id is not None:
            found = await _by_id(admin, topic_id, if_exists)
        else:
            listed = await admin.list_topics(list_internal=not exclude_internal)
            names = sorted(name for name in listed if pattern is None or pattern.fullmatch(name))
            if not names and topic is not None and not if_exists:
                raise click.ClickException(f"There is no topic {topic}.")
            found = await _by_names(admin, names)
        configs = await _configs_of(admin, [each.name for each in found])
    if target.json:
        write_json([_as_json(each, configs.get(each.name, {})) for each in found])
        return
    for each in found:
        _print(each, configs.get(each.name, {}))


async def _by_id(admin: AdminClient, topic_id: Uuid, if_exists: bool) -> list[TopicDescription]:
    from pybroker.client import TopicCollection
    from pybroker.errors import KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    try:
        return list((await admin.describe_topics(TopicCollection.of_topic_ids([topic_id])).all_topic_ids()).values())
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_ID:
            raise
        if if_exists:
            return []
        raise click.ClickException(f"There is no topic with the id {topic_id}.") from None


async def _by_names(admin: AdminClient, names: Names) -> list[TopicDescription]:
    """Topics that go away meanwhile are left out."""
    from pybroker.errors import KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    result = admin.describe_topics(names)
    found = []
    for name in names:
        futures = result.topic_name_values()
        assert futures is not None, "asked by name"
        try:
            found.append(await futures[name])
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return found


async def _configs_of(admin: AdminClient, names: Names) -> Mapping[str, Mapping[str, str | None]]:
    """What was set for these topics themselves; nothing for those whose settings may not be seen."""
    from pybroker.client import ConfigResource, ConfigSource
    from pybroker.errors import KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    resources = [ConfigResource.topic(name) for name in names]
    result = admin.describe_configs(resources).values()
    found = {}
    for resource in resources:
        try:
            entries = await result[resource]
        except KafkaError as error:
            if error.code not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            continue
        own = (entry for entry in entries.values() if entry.source == ConfigSource.TOPIC_CONFIG)
        found[resource.name] = {entry.name: entry.value for entry in own}
    return found


def _as_json(topic: TopicDescription, configs: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id) if topic.topic_id else None,
        "internal": topic.internal,
        "configs": dict(configs),
        "partitions": [
            {
                "partition": each.partition,
                "leader": None if each.leader is None else each.leader.id,
                "replicas": [node.id for node in each.replicas],
                "isr": [node.id for node in each.isr],
            }
            for each in topic.partitions
        ],
    }


def _print(topic: TopicDescription, configs: Mapping[str, str | None]) -> None:
    """As kafka-topics does, so that what reads its output reads this."""
    factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    settings = ",".join(f"{name}={value}" for name, value in sorted(configs.items()))
    head = {
        "Topic": topic.name,
        "TopicId": topic.topic_id,
        "PartitionCount": len(topic.partitions),
        "ReplicationFactor": factor,
        "Configs": settings,
    }
    click.echo("\t".join(f"{name}: {value}" for name, value in head.items()))
    for each in topic.partitions:
        row = {
            "Topic": topic.name,
            "Partition": each.partition,
            "Leader": "none" if each.leader is None else each.leader.id,
            "Replicas": ",".join(str(node.id) for node in each.replicas),
            "Isr": ",".join(str(node.id) for node in each.isr),
        }
        click.echo("\t" + "\t".join(f"{name}: {value}" for name, value in row.items()))


async def _create(
    target: Target,
    topic: str,
    *,
    partitions: int | None,
    replication_factor: int | None,
    settings: Mapping[str, str],
    if_not_exists: bool,
) -> None:
    from pybroker.client import AdminClient, NewTopic
    from pybroker.errors import KafkaError
    from pybroker.native import Uuid
    from pybroker.protocol.error_codes import ErrorCode

    new = NewTopic(topic, partitions or -1, replication_factor or -1, config=settings)
    async with AdminClient(target.client_config()) as admin:
        result = admin.create_topics([new])
        try:
            topic_id = await result.topic_id(topic)
        except KafkaError as error:
            if not if_not_exists or error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            _done(target, [{"topic": topic, "created": False}], f"Topic {topic} is there already.")
            return
    row = {"topic": topic, "created": True, "topic_id": str(topic_id)}
    # A broker without topic ids (or from before them) says ZERO.
    _done(target, [row], f"Created topic {topic}" + ("." if topic_id == Uuid.ZERO else f" with id {topic_id}."))


async def _delete(target: Target, topic: str | None, topic_id: Uuid | None, if_exists: bool) -> None:
    from pybroker.client import AdminClient, TopicCollection
    from pybroker.errors import KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    wanted: TopicCollection | Iterable[str]
    if topic_id is not None:
        wanted, shown = TopicCollection.of_topic_ids([topic_id]), f"with id {topic_id}"
    else:
        assert topic is not None
        wanted, shown = [topic], topic
    async with AdminClient(target.client_config()) as admin:
        try:
            await admin.delete_topics(wanted)
        except KafkaError as error:
            absent = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if not if_exists or error.code not in absent:
                raise
            _done(target, [{"topic": topic, "deleted": False}], f"There is no topic {shown}.")
            return
    row = {"topic": topic, "topic_id": None if topic_id is None else str(topic_id), "deleted": True}
    _done(target, [row], f"Deleted topic {shown}.")


async def _alter(target: Target, topic: str, partitions: int, if_exists: bool) -> None:
    from pybroker.client import AdminClient
    from pybroker.errors import KafkaError
    from pybroker.protocol.error_codes import ErrorCode

    async with AdminClient(target.client_config()) as admin:
        try:
            await admin.create_partitions({topic: partitions})
        except KafkaError as error:
            if not if_exists or error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            _done(target, [{"topic": topic, "altered": False}], f"There is no topic {topic}.")
            return
    _done(target, [{"topic": topic, "altered": True}], f"Topic {topic} has {partitions} partitions now.")


def _done(target: Target, rows: Sequence[Mapping[str, object]], sentence: str) -> None:
    if target.json:
        write_json(list(rows))
    else:
        click.echo(sentence)
