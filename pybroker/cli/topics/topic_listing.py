"""`pybroker topics list | describe`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, write_json
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import no_topic
from pybroker.cli.topics.topic_arguments import parsed_id, topic_id_option

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicDescription
    from pybroker.native import Uuid

exclude_internal_option = click.option("--exclude-internal", is_flag=True, help="Omit internal topics.")


@click.command("list")
@named(
    "topic", "REGEX", "Regular expression that must match the whole topic name.", required=False, complete=topic_names
)
@exclude_internal_option
@broker_options
def list_topics(topic: str | None, *, exclude_internal: bool, target: Target) -> None:
    """List all topics, or those whose names match REGEX."""
    run(_list(target, topic, exclude_internal))


@click.command()
@named(
    "topic", "REGEX", "Regular expression that must match the whole topic name.", required=False, complete=topic_names
)
@topic_id_option
@exclude_internal_option
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@broker_options
def describe(
    topic: str | None, *, topic_id: str | None, exclude_internal: bool, if_exists: bool, target: Target
) -> None:
    """Show ids, partitions and settings of topics.

    Shows all topics, or those whose names match REGEX.
    """
    wanted = None if topic_id is None else parsed_id(topic_id)
    run(_describe(target, topic, wanted, exclude_internal, if_exists))


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
        say(str(row["topic"]))


async def _describe(
    target: Target, topic: str | None, topic_id: Uuid | None, exclude_internal: bool, if_exists: bool
) -> None:
    from pybroker.client import AdminClient

    if topic is not None and topic_id is not None:
        say("Both --topic and --topic-id are given; only the id is used.", err=True)
    pattern = _pattern(topic)
    async with AdminClient(target.client_config()) as admin:
        if topic_id is not None:
            found = await _by_id(admin, topic_id, if_exists)
        else:
            listed = await admin.list_topics(list_internal=not exclude_internal)
            names = sorted(name for name in listed if pattern is None or pattern.fullmatch(name))
            if not names and topic is not None and not if_exists:
                raise click.ClickException(await no_topic(admin, topic))
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
        raise click.ClickException(await no_topic(admin, topic_id)) from None


async def _by_names(admin: AdminClient, names: Sequence[str]) -> list[TopicDescription]:
    """Return topics, except topics that were deleted in the meantime."""
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


async def _configs_of(admin: AdminClient, names: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
    """Return the topics' own settings. A topic has none if the caller may not see its settings."""
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
    """Print like kafka-topics, so that scripts that parse its output work."""
    factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    settings = ",".join(f"{name}={value}" for name, value in sorted(configs.items()))
    head = {
        "Topic": topic.name,
        "TopicId": topic.topic_id,
        "PartitionCount": len(topic.partitions),
        "ReplicationFactor": factor,
        "Configs": settings,
    }
    say("\t".join(f"{name}: {value}" for name, value in head.items()))
    for each in topic.partitions:
        row = {
            "Topic": topic.name,
            "Partition": each.partition,
            "Leader": "none" if each.leader is None else each.leader.id,
            "Replicas": ",".join(str(node.id) for node in each.replicas),
            "Isr": ",".join(str(node.id) for node in each.isr),
        }
        say("\t" + "\t".join(f"{name}: {value}" for name, value in row.items()))
