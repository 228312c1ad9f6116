"""`pybroker topics create | delete | alter`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, write_json
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.target import Target
from pybroker.cli.topics.topic_arguments import parsed_id, topic_id_option

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicDeletion
    from pybroker.client.admin.admin_results import TopicMetadataAndConfig
    from pybroker.native import Uuid


@click.command()
@named("topic", "NAME", "Name of the topic.")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Number of partitions; default: num.partitions of the broker."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Number of replicas; default: default.replication.factor of the broker.",
)
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="Topic setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic already exists.")
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
    sentence = f"Created topic {topic}{known}" if created else f"Topic {topic} already exists{known}"
    _done(target, {"topic": topic, "topic_id": topic_id, "created": created}, sentence)
    if warning is not None:
        say(warning, err=True)


@click.command()
@named("topic", "NAME", "Name of the topic.", required=False, complete=topic_names)
@topic_id_option
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@click.option("--dry-run", is_flag=True, help="Only show what the deletion would remove: records, bytes, groups.")
@click.option("--now", is_flag=True, help="Remove the data immediately and permanently, like `pybroker topics purge`.")
@click.option("--yes", is_flag=True, help="With --now: skip the confirmation.")
@broker_options
def delete(
    topic: str | None,
    *,
    topic_id: str | None,
    if_exists: bool,
    dry_run: bool,
    now: bool,
    yes: bool,
    target: Target,
) -> None:
    """Delete a topic by NAME or id. Its data can be undeleted until delete.topic.delay.ms has passed."""
    if topic is not None and topic_id is not None:
        raise click.UsageError("Use either a topic name or --topic-id, not both.")
    if topic is None and topic_id is None:
        raise click.UsageError("Missing argument: pybroker topics delete NAME (or --topic NAME, or --topic-id ID).")
    wanted = None if topic_id is None else parsed_id(topic_id)
    if dry_run:
        from pybroker.cli.topics.impact_report import show_impact

        show_impact(target, topic if wanted is None else wanted, if_exists=if_exists)
        return
    if now and not yes:
        shown = topic if wanted is None else f"with id {wanted}"
        click.confirm(f"Delete topic {shown} and remove its data permanently?", abort=True, err=True)
    row, sentence = run(_delete(target, topic if wanted is None else wanted, if_exists=if_exists, now=now))
    _done(target, row, sentence)


async def _delete(
    target: Target, which: str | Uuid | None, *, if_exists: bool, now: bool
) -> tuple[Mapping[str, object], str]:
    """Delete a topic and return the result for machines and for people."""
    from pybroker.cli.topics.deleted_topics import deletions_of, no_topic
    from pybroker.client import AdminClient, ErrorCode, KafkaError, TopicCollection

    async with AdminClient(target.client_config()) as admin:
        name = which if isinstance(which, str) else None
        topic_id = await _living_id(admin, which) if isinstance(which, str) else which
        row: dict[str, object] = {"topic": name, "topic_id": None if topic_id is None else str(topic_id)}
        chosen: TopicCollection | Iterable[str] = [name or ""]
        if topic_id is not None:
            chosen = TopicCollection.of_topic_ids([topic_id])
        try:
            await admin.delete_topics(chosen)
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            if not if_exists:
                raise
            return {**row, "deleted": False}, await no_topic(admin, which or "")
        row["deleted"] = True
        found = [] if topic_id is None else await deletions_of(admin, topic_id)
        if not found:
            return row, f"Deleted topic {which}."
        row["topic"] = found[0].name
        sentence = f"Deleted topic {found[0].name} with id {topic_id}."
        return await _with_receipt(admin, row, sentence, found[0], now=now)


async def _with_receipt(
    admin: AdminClient, row: Mapping[str, object], sentence: str, waiting: TopicDeletion, *, now: bool
) -> tuple[Mapping[str, object], str]:
    """Add the fate of the data: the end of the delay or, if `now` is true, the removal."""
    from pybroker.cli.topics.deleted_topics import undelete_hint
    from pybroker.cli.topics.lifecycle import purged, receipt, receipt_sentence

    if now:
        left = await purged(admin, waiting)
        return {**row, **receipt(waiting, left)}, f"{sentence} {receipt_sentence(waiting, left)}"
    back = undelete_hint(waiting)
    row = {**row, "undeletable": waiting.undeletable, "remove_after_ms": waiting.remove_after_ms}
    return row, f"{sentence} {back}" if back else sentence


async def _living_id(admin: AdminClient, topic: str) -> Uuid | None:
    """Return the topic's id; None if the topic does not exist or the brokers have no ids. The next request, by name,
    shows which is the case."""
    from pybroker.client import KafkaError

    try:
        return (await admin.describe_topics([topic]))[topic].topic_id or None
    except KafkaError:
        return None


@click.command()
@named("topic", "NAME", "Name of the topic.", required=False, complete=topic_names)
@topic_id_option
@click.option("--partitions", type=click.IntRange(min=1), help="New number of partitions.")
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@broker_options
def alter(topic: str | None, *, topic_id: str | None, partitions: int | None, if_exists: bool, target: Target) -> None:
    """Add partitions to a topic, by NAME or id. Use `pybroker configs` to change settings."""
    wanted: str | Uuid | None = topic if topic_id is None else parsed_id(topic_id)
    if wanted is None or (topic is not None and topic_id is not None):
        raise click.UsageError("Missing argument: pybroker topics alter NAME (or --topic NAME, or --topic-id ID).")
    if partitions is None:
        raise click.UsageError("alter requires --partitions; use `pybroker configs alter` to change settings.")

    async def work() -> str | None:
        """Alter the topic, and return None. If the topic does not exist, return a sentence about it."""
        from pybroker.cli.topics.deleted_topics import no_topic
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
                return await no_topic(admin, wanted)
        return None

    absent = run(work())
    altered = absent is None
    sentence = absent or f"Topic {wanted} now has {partitions} partitions."
    known = {} if topic_id is None else {"topic_id": str(wanted)}
    _done(target, {"topic": topic, **known, "altered": altered}, sentence)


def _settings(pairs: Iterable[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--config {pair}: expected KEY=VALUE")
        settings[name] = value
    return settings


def _too_few_replicas(topic: str, made: TopicMetadataAndConfig) -> str | None:
    """Return a warning if min.insync.replicas cannot be met; None if the broker does not report its settings."""
    entry = (made.config or {}).get("min.insync.replicas")
    if entry is None or entry.value is None or not 0 < made.replication_factor < int(entry.value):
        return None
    return (
        f"warning: topic {topic} has {made.replication_factor} replica(s) and min.insync.replicas={entry.value}: "
        f"writes with acks=all fail (NOT_ENOUGH_REPLICAS). Lower it: pybroker configs alter --topic {topic} "
        f"--add-config min.insync.replicas={made.replication_factor}"
    )


async def _id_of(admin: AdminClient, topic: str) -> str | None:
    found = (await admin.describe_topics([topic])).get(topic)
    return None if found is None else _text(found.topic_id)


def _text(topic_id: Uuid | None) -> str | None:
    """Return the id as text; None for a broker without topic ids, which sends no id or ZERO."""
    return str(topic_id) if topic_id else None


def _done(target: Target, row: Mapping[str, object], sentence: str) -> None:
    if target.json:
        write_json(row)
    else:
        say(sentence)
