"""`pybroker topics undelete | truncate | history | deletions`: the lives of topics."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli import times
from pybroker.cli.completion import deleted_ids, topic_names
from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run, sentence
from pybroker.cli.output import say, table, write_json
from pybroker.cli.target import Target
from pybroker.cli.topics.arguments import name_or_id, parsed_id, topic_id_option

if TYPE_CHECKING:
    from pybroker.client import AdminClient

TIMEOUT_MS = 60_000
"""For the broker: an undeletion moves directories, it copies nothing."""
POLL_S = 0.2
"""Between two looks at a deletion that is waited for."""


async def _with_admin(target: Target, work: Callable[[AdminClient], Awaitable[Any]]) -> Any:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        return await work(admin)


def _check(answer: Any) -> Any:
    if answer.error_code:
        raise click.ClickException(sentence(answer.error_code, answer.error_message))
    return answer


def _time(ms: int) -> str:
    if ms < 0:
        return ""
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@click.command()
@named("topic_id", "ID", "The topic's id.", complete=deleted_ids)
@click.option("--as", "new_name", metavar="NAME", help="The name it gets; without it, the one that it had.")
@broker_options
def undelete(topic_id: str, new_name: str | None, target: Target) -> None:
    """Bring a deleted topic back, while its data still waits: records, settings and groups' offsets.

    ID is what `pybroker topics deletions` shows.
    """
    from pybroker.protocol.messages import UndeleteTopicsRequest, UndeleteTopicsRequest_UndeletableTopic

    topic = UndeleteTopicsRequest_UndeletableTopic(topic_id=parsed_id(topic_id), new_name=new_name)
    request = UndeleteTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = _check(run(_with_admin(target, lambda admin: admin.send(request, node="controller"))).topics[0])
    if target.json:
        write_json({"topic": answer.name, "topic_id": str(answer.topic_id)})
    else:
        say(f"Undeleted topic {answer.name} with id {answer.topic_id}.")


@click.command()
@named("topic", "NAME", "The topic's name.", complete=topic_names)
@click.option("--keep-offsets", is_flag=True, help="New records go on at the old log end; groups keep their offsets.")
@broker_options
def truncate(topic: str, keep_offsets: bool, target: Target) -> None:
    """Remove all records of a topic at once: it gets a new id and empty logs, and keeps name and settings.

    The old records wait like those of a deleted topic, and can be brought back under another name.
    """
    from pybroker.protocol.messages import TruncateTopicsRequest, TruncateTopicsRequest_TruncatableTopic

    async def work(admin: AdminClient) -> Any:
        # By id, so that a request that is sent twice does not truncate twice.
        found = _check((await _history(admin, topic)).topics[0])
        live = next((one for one in found.incarnations if one.state == "live"), None)
        if live is None:
            raise click.ClickException(f"There is no topic '{topic}'.")
        wanted = TruncateTopicsRequest_TruncatableTopic(topic_id=live.topic_id, keep_offsets=keep_offsets)
        request = TruncateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
        return _check((await admin.send(request, node="controller")).topics[0])

    answer = run(_with_admin(target, work))
    if target.json:
        new, old = str(answer.topic_id), str(answer.old_topic_id)
        write_json({"topic": answer.name, "topic_id": new, "old_topic_id": old})
    else:
        say(f"Truncated topic {answer.name}: its id is {answer.topic_id} now, it was {answer.old_topic_id}.")


async def _history(admin: AdminClient, which: str) -> Any:
    from pybroker.native import Uuid
    from pybroker.protocol.messages import DescribeTopicHistoryRequest, DescribeTopicHistoryRequest_HistoryTopic

    name, topic_id = name_or_id(which)
    wanted = DescribeTopicHistoryRequest_HistoryTopic(name=name, topic_id=topic_id)
    answer = await admin.send(DescribeTopicHistoryRequest(topics=[wanted]), node="controller")
    if name is None and answer.topics[0].error_code:
        by_name = DescribeTopicHistoryRequest_HistoryTopic(name=which, topic_id=Uuid.ZERO)
        again = await admin.send(DescribeTopicHistoryRequest(topics=[by_name]), node="controller")
        return answer if again.topics[0].error_code else again
    return answer


@click.command()
@named("topic", "NAME|ID", "The topic's name, or its id.", required=False, complete=topic_names)
@topic_id_option
@broker_options
def history(topic: str | None, topic_id: str | None, target: Target) -> None:
    """Show each incarnation of a topic: who created and deleted it, when and how, and where its logs ended."""
    if (topic is None) == (topic_id is None):
        raise click.UsageError("Say which, once: pybroker topics history NAME|ID (or --topic NAME, or --topic-id ID).")
    which = topic if topic_id is None else str(parsed_id(topic_id))
    answer = _check(run(_with_admin(target, lambda admin: _history(admin, which or ""))).topics[0])
    if target.json:
        write_json([_incarnation(one) for one in answer.incarnations])
        return
    rows = [
        {
            "topic": one.name,
            "topic_id": str(one.topic_id),
            "state": one.state,
            "created": _time(one.created_ms),
            "created_by": one.created_by or "",
            "deleted": _time(one.deleted_ms),
            "deleted_by": one.deleted_by or "",
            "deleted_how": one.deleted_how or "",
            "log_ends": ", ".join(
                f"{part.partition_index}:{part.log_end_offset}" for part in one.partitions if part.log_end_offset >= 0
            ),
        }
        for one in answer.incarnations
    ]
    table(rows, tuple(rows[0]) if rows else ("topic", "topic_id", "state"))


def _incarnation(one: Any) -> dict[str, Any]:
    from pybroker.native import Uuid

    return {
        "topic": one.name,
        "topic_id": str(one.topic_id),
        "state": one.state,
        "created_ms": one.created_ms,
        "created_by": one.created_by,
        "created_how": one.created_how,
        "deleted_ms": None if one.deleted_ms < 0 else one.deleted_ms,
        "deleted_by": one.deleted_by,
        "deleted_how": one.deleted_how,
        "successor_id": None if one.successor_id == Uuid.ZERO else str(one.successor_id),
        "events": [
            {"what": event.what, "at_ms": event.at_ms, "by": event.by, "topic": event.name or None}
            for event in one.events
        ],
        "partitions": [
            {
                "partition": part.partition_index,
                "log_start_offset": part.log_start_offset,
                "log_end_offset": part.log_end_offset,
            }
            for part in one.partitions
        ],
    }


@click.command()
@click.option("--wait", "waited_for", metavar="ID|NAME", help="Return when the data of this topic is gone.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="For --wait; without it, no limit.")
@click.option("--purge", metavar="ID", help="Delete what brokers have found of a topic that nobody knows.")
@broker_options
def deletions(waited_for: str | None, timeout: float | None, purge: str | None, target: Target) -> None:
    """Show what is being deleted: state, bytes on disk, and the time left for each partition.

    What is "found" was put aside by brokers because nobody knows its topic. It stays until it is brought back
    (`pybroker topics undelete`) or deleted with --purge, after the usual delay.
    """
    if timeout is not None and waited_for is None:
        raise click.UsageError("--timeout is for --wait.")
    if purge is not None:
        run(_with_admin(target, lambda admin: _purge(admin, purge)))
    found = run(_with_admin(target, lambda admin: _deletions(admin, waited_for, timeout)))
    if target.json:
        write_json([_deletion(one) for one in found])
        return
    rows = [
        {
            "topic": one.name,
            "topic_id": str(one.topic_id),
            "how": one.how,
            "partition": part.partition_index,
            "broker": part.broker_id,
            "state": part.state,
            "bytes": None if part.size_bytes < 0 else part.size_bytes,
            "removed_in": "" if part.remaining_ms < 0 else times.span(part.remaining_ms),
        }
        for one in found
        for part in one.partitions
    ]
    table(rows, ("topic", "topic_id", "how", "partition", "broker", "state", "bytes", "removed_in"))


async def _purge(admin: AdminClient, text: str) -> None:
    from pybroker.protocol.messages import DeleteTopicsRequest, DeleteTopicsRequest_DeleteTopicState

    topic_id = parsed_id(text)
    if not any(one.topic_id == topic_id and one.state == "found" for one in await _deletions(admin, None, None)):
        raise click.ClickException(f"No broker has found anything of an unknown topic with id {topic_id}.")
    topics = [DeleteTopicsRequest_DeleteTopicState(topic_id=topic_id)]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    _check((await admin.send(request, node="controller")).responses[0])


async def _deletions(admin: AdminClient, waited_for: str | None, timeout_s: float | None) -> list[Any]:
    from pybroker.protocol.messages import DescribeDeletionsRequest, DescribeDeletionsRequest_DeletionFilter

    filters = None
    if waited_for is not None:
        name, topic_id = name_or_id(waited_for)
        filters = [DescribeDeletionsRequest_DeletionFilter(name=name, topic_id=topic_id)]
    give_up = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        answer = _check(await admin.send(DescribeDeletionsRequest(topics=filters), node="controller"))
        found: list[Any] = answer.deletions
        if waited_for is None:
            return found
        if not found and filters is not None and filters[0].name is None:
            # A name may look like an id.
            filters = [DescribeDeletionsRequest_DeletionFilter(name=waited_for)]
            continue
        if not found:
            raise click.ClickException(f"Nothing is known of a deleted topic '{waited_for}'.")
        if all(one.state == "removed" for one in found):
            return found
        if give_up is not None and time.monotonic() >= give_up:
            raise click.ClickException(f"The data of '{waited_for}' is still there after {timeout_s:g} s.")
        await asyncio.sleep(POLL_S)


def _deletion(one: Any) -> dict[str, Any]:
    return {
        "topic": one.name,
        "topic_id": str(one.topic_id),
        "state": one.state,
        "how": one.how,
        "deleted_ms": one.deleted_ms,
        "deleted_by": one.deleted_by,
        "remaining_ms": None if one.remaining_ms < 0 else one.remaining_ms,
        "bytes": one.size_bytes,
        "partitions": [
            {
                "partition": part.partition_index,
                "broker": part.broker_id,
                "state": part.state,
                "log_dir": part.log_dir,
                "bytes": part.size_bytes,
                "remaining_ms": None if part.remaining_ms < 0 else part.remaining_ms,
            }
            for part in one.partitions
        ],
    }
