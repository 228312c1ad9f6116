"""`pybroker archive`: a topic into Parquet files, each row with where it came from."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import click

from pybroker.cli.options import Target, broker_options

LINEAGE = {
    "_topic_id": "topic_id",
    "_cluster_id": "cluster_id",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}


def bound(text: str | None, prefix: str) -> dict[str, str]:
    """The option of the data source for `--from` or `--to`: a word, offsets as JSON, milliseconds or an ISO time.

    Raises click.BadParameter.
    """
    if text is None:
        return {}
    if text in ("earliest", "latest"):
        return {f"{prefix}Offsets": text}
    if text.startswith("{"):
        try:
            json.loads(text)
        except ValueError as error:
            raise click.BadParameter(f"{text}: {error}") from None
        return {f"{prefix}Offsets": text}
    if text.isdigit():
        return {f"{prefix}Timestamp": text}
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text}: earliest, latest, milliseconds since 1970, an ISO time or offsets as JSON are needed"
        ) from None
    return {f"{prefix}Timestamp": str(round(when.timestamp() * 1000))}


@click.command()
@click.argument("topic")
@click.argument("dest", type=click.Path(path_type=Path))
@click.option("--from", "start", metavar="WHERE", help="earliest, a time (ISO or milliseconds) or offsets as JSON.")
@click.option("--to", "end", metavar="WHERE", help="latest, a time (ISO or milliseconds) or offsets as JSON.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("--mode", type=click.Choice(["error", "append", "overwrite"]), default="error", show_default=True)
@broker_options
def archive(
    *, topic: str, dest: Path, start: str | None, end: str | None, master: str, mode: str, target: Target
) -> None:
    """Write TOPIC (a name or an id) as Parquet files into DEST, with the columns _topic_id, _cluster_id, _partition,
    _offset and _timestamp."""
    from pybroker.cli import spark_jobs

    options = {**bound(start, "starting"), **bound(end, "ending")}
    with spark_jobs.session(master) as spark, spark_jobs.errors_as_lines():
        frame = spark_jobs.reader(spark, target, topic, options).load()
        names = {source: name for name, source in LINEAGE.items()}
        wanted = [f"`{column}` AS `{names.get(column, column)}`" for column in spark_jobs.ARCHIVED]
        # The offsets of the moment: what is written and what is counted must be the same records.
        with spark_jobs.progress(spark, f"{topic} → {dest}"):
            frame.selectExpr(*wanted).write.mode(mode).option("compression", "zstd").parquet(str(dest))
        written = spark.read.parquet(str(dest))
        summary = (
            written.groupBy("_topic_id", "_partition")
            .agg({"_offset": "min", "*": "count"})
            .join(written.groupBy("_topic_id", "_partition").agg({"_offset": "max"}), ["_topic_id", "_partition"])
            .orderBy("_topic_id", "_partition")
            .collect()
        )
    spark_jobs.show(
        [
            {"topic id": row[0], "partition": row[1], "first": row["min(_offset)"], "last": row["max(_offset)"]}
            | {"rows": row["count(1)"]}
            for row in summary
        ],
        ("topic id", "partition", "first", "last", "rows"),
        as_json=target.json,
    )
