"""`pybroker adopt`."""

from __future__ import annotations

from pathlib import Path

import click

from pybroker.cli.output import say


@click.command()
@click.argument("directories", metavar="DIR…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be done without changing anything.")
@click.option(
    "--topic-configs",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help='Topic settings of a ZooKeeper-based broker, as JSON: {"TOPIC": {"SETTING": "VALUE"}}.',
)
@click.option("--json", "as_json", is_flag=True, help="Write the output as JSON.")
def adopt(directories: tuple[Path, ...], dry_run: bool, topic_configs: Path | None, as_json: bool) -> None:
    """Convert an Apache Kafka broker to pybroker.

    The broker must be stopped. Pass all its log directories; the metadata is stored in the first one. Topics keep their
    ids, records and committed offsets. Apache Kafka cannot use the directories afterwards: copy them first.
    """
    import asyncio

    from pybroker.broker.offline.adopt.adoption_plan import make_plan, read_topic_configs
    from pybroker.broker.offline.adopt.adoption_steps import carry_out, finish, unfinished
    from pybroker.broker.offline.offline_directories import locked
    from pybroker.cli.output import table, write_json
    from pybroker.errors import StartError
    from pybroker.files import keep_private

    places = [Path(directory).absolute() for directory in directories]
    keep_private()
    try:
        for place in places:
            if not place.is_dir():
                raise StartError(f"{place} is not a directory")
        with locked(places):
            if unfinished(places[0]):
                if not dry_run:
                    finish(places)
                say(f"{places[0]} was already adopted; the remaining steps are done")
                return
            plan = make_plan(places, None if topic_configs is None else read_topic_configs(topic_configs))
            if not dry_run:
                asyncio.run(carry_out(plan))
    except StartError as problem:
        raise click.ClickException(f"{problem}. Nothing was changed.") from None
    except OSError as problem:
        raise click.ClickException(f"{problem.filename or places[0]}: {problem.strerror}") from None
    rows = [
        {
            "topic": topic.name,
            "topic_id": str(topic.topic_id),
            "partitions": len(topic.epochs),
            "bytes": topic.size_bytes,
            "configs": dict(topic.config),
        }
        for topic in sorted(plan.topics, key=lambda one: one.name)
    ]
    if as_json:
        write_json({"cluster_id": plan.cluster_id, "node_id": plan.node_id, "topics": rows, "notes": plan.notes})
        return
    say(f"cluster {plan.cluster_id}, broker {plan.node_id}, {plan.source}")
    table(rows, ["topic", "topic_id", "partitions", "bytes", "configs"])
    for note in plan.notes:
        say(f"note: {note}")
    if dry_run:
        say("dry run: nothing was changed")
    else:
        joined = ",".join(map(str, places))
        say(f"adopted; start the broker with: pybroker start --set node.id={plan.node_id} --set log.dirs={joined}")
