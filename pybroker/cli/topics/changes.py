"""`pybroker topics create | delete | alter`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from pybroker.cli.completion import topic_names
from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, write_json
from pybroker.cli.target import Target
from pybroker.cli.topics.arguments import parsed_id, topic_id_option

if TYPE_CHECKING:
    from pybroker.client import AdminClient
    from pybroker.client.admin.results import TopicMetadataAndConfig
    from pybroker.native import Uuid


@click.command()
@named("topic", "NAME", "The topic's name.")
@click.option("--partitions", type=click.IntRange(min=1), help="How many; else the broker's num.partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Else the broker's default.replication.factor.")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of the topic.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there is no failure.")
@broker_options
def create(
    topic: str,
    *,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    target: Target,
) -> None:
    """Create the topic NAME."""
    settings = _settings(configs)

    async def work() -> tuple[bool, str | None, str | None]:
        from pybroker.client import AdminClient, NewTopic
        from pybroker.errors import KafkaError
        from pybroker.protocol.error_codes import ErrorCode

        new = NewTopic(topic, partitions or -1, replication_factor or -1, config=settings)
        async with AdminClient(target.client_config()) as admin:
            try:
                made = (await admin.create_topics([new]))[topic]
                return True, _text(made.topic_id), _too_few_replicas(topic, made)
            except KafkaError as error:
                if not if_not_exists or error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                return False, await _id_of(admin, topic), None

    created, topic_id, warning = run(work())
    known = f" with id {topic_id}." if topic_id else "."
    said = f"Created topic {topic}{known}" if created else f"Topic {topic} is there already{known}"
    _done(target, {"topic": topic, "topic_id": topic_id, "created": created}, said)
    if warning is not None:
        say(warning, err=True)


@click.command()
@named("topic", "NAME", "The topic's name.", required=False, complete=topic_names)
@topic_id_option
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no failure.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be gone: records, bytes, who reads them.")
@broker_options
def delete(topic: str | None, *, topic_id: str | None, if_exists: bool, dry_run: bool, target: Target) -> None:
    """Delete the topic NAME, or the one with an id."""
    if topic is not None and topic_id is not None:
        raise click.UsageError("Say the name or --topic-id, not both: what is gone is gone.")
    if topic is None and topic_id is None:
        raise click.UsageError("Say which: pybroker topics delete NAME (or --topic NAME, or --topic-id ID).")
    wanted = None if topic_id is None else parsed_id(topic_id)
    if dry_run:
        from pybroker.cli.topics.impact import show_impact

        show_impact(target, topic if wanted is None else wanted, if_exists=if_exists)
        return

    async def work() -> bool:
        from pybroker.client import AdminClient, TopicCollection
        from pybroker.errors import KafkaError
        from pybroker.protocol.error_codes import ErrorCode

        chosen: TopicCollection | Iterable[str] = [topic or ""]
        if wanted is not None:
            chosen = TopicCollection.of_topic_ids([wanted])
        async with AdminClient(target.client_config()) as admin:
            try:
                await admin.delete_topics(chosen)
            except KafkaError as error:
                absent = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if not if_exists or error.code not in absent:
                    raise
                return False
        return True

    deleted = run(work())
    shown = topic if wanted is None else f"with id {wanted}"
    said = f"Deleted topic {shown}." if deleted else f"There is no topic {shown}."
    row = {"topic": topic, "topic_id": None if wanted is None else str(wanted), "deleted": deleted}
    _done(target, row, said)


@click.command()
@named("topic", "NAME", "The topic's name.", required=False, complete=topic_names)
@topic_id_option
@click.option("--partitions", type=click.IntRange(min=1), help="How many it shall have.")
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no failure.")
@broker_options
def alter(
    topic: str | None, *, topic_id: str | None, partitions: int | None, if_exists: bool, target: Target
) -> None:
    """Give the topic NAME, or the one with an id, more partitions. Settings are changed by pybroker configs."""
    wanted: str | Uuid | None = topic if topic_id is None else parsed_id(topic_id)
    if wanted is None or (topic is not None and topic_id is not None):
        raise click.UsageError("Say which: pybroker topics alter NAME (or --topic NAME, or --topic-id ID).")
    if partitions is None:
        raise click.UsageError("alter needs --partitions; settings are changed by pybroker configs.")

    async def work() -> bool:
        from pybroker.client import AdminClient
        from pybroker.errors import KafkaError
        from pybroker.protocol.error_codes import ErrorCode

        async with AdminClient(target.client_config()) as admin:
            try:
                await admin.create_partitions({wanted: partitions})
            except KafkaError as error:
                absent = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
                if not if_exists or error.code not in absent:
                    raise
                return False
        return True

    altered = run(work())
    said = f"Topic {wanted} has {partitions} partitions now." if altered else f"There is no topic {wanted}."
    known = {} if topic_id is None else {"topic_id": str(wanted)}
    _done(target, {"topic": topic, **known, "altered": altered}, said)


def _settings(pairs: Iterable[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--config {pair}: expected KEY=VALUE")
        settings[name] = value
    return settings


def _too_few_replicas(topic: str, made: TopicMetadataAndConfig) -> str | None:
    """A warning if min.insync.replicas cannot be met. A broker that says nothing of its settings causes none."""
    entry = (made.config or {}).get("min.insync.replicas")
    if entry is None or entry.value is None or not 0 < made.replication_factor < int(entry.value):
        return None
    return (
        f"warning: topic {topic} has {made.replication_factor} replica(s) and min.insync.replicas={entry.value}: "
        "producers with acks=all are refused (NOT_ENOUGH_REPLICAS). Lower it: pybroker configs alter --topic "
        f"{topic} --add-config min.insync.replicas={made.replication_factor}"
    )


async def _id_of(admin: AdminClient, topic: str) -> str | None:
    found = (await admin.describe_topics([topic])).get(topic)
    return None if found is None else _text(found.topic_id)


def _text(topic_id: Uuid | None) -> str | None:
    """A broker without topic ids (or from before them) says none, or ZERO."""
    return str(topic_id) if topic_id else None


def _done(target: Target, row: Mapping[str, object], sentence: str) -> None:
    if target.json:
        write_json(row)
    else:
        say(sentence)
