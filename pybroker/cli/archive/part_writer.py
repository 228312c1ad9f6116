"""Writes the parts of an archive with separate Spark jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pybroker.cli.archive.archive_plan import ArchivePart, ArchivePlan, WrittenPartition
from pybroker.cli.archive.folder import Folder
from pybroker.cli.spark.spark_session import ARCHIVED, reader
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEAGE = {
    "_topic_id": "topic_id",
    "_cluster_id": "cluster_id",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}
COUNTED = "_partition int, _offset bigint"


class PartWriter:
    """Writes the parts of a plan. `partitions` is the topic's current number of partitions."""

    def __init__(self, spark: SparkSession, target: Target, folder: Folder, plan: ArchivePlan, partitions: int) -> None:
        self._spark, self._target, self._folder, self._plan = spark, target, folder, plan
        self._partitions = partitions

    def write(self, number: int) -> ArchivePart:
        """Write a part completely or not at all. Replace the output of an earlier attempt."""
        from pyspark.sql import functions

        topic_id = self._plan.asked.topic_id
        first, last = (json.dumps({topic_id: places}) for places in self._plan.part(number, self._partitions))
        names = {source: name for name, source in LINEAGE.items()}
        columns = [f"`{column}` AS `{names.get(column, column)}`" for column in ARCHIVED]
        frame = reader(self._spark, self._target, topic_id, {"startingOffsets": first, "endingOffsets": last}).load()
        staging = self._folder.staging(number)
        frame.selectExpr(*columns).write.mode("overwrite").option("compression", "zstd").parquet(staging)
        rows = (
            self._spark.read.schema(COUNTED)
            .parquet(staging)
            .groupBy("_partition")
            .agg(
                functions.min("_offset").alias("first"),
                functions.max("_offset").alias("last"),
                functions.count("*").alias("rows"),
            )
            .collect()
        )
        part = ArchivePart(
            self._folder.staged(number),
            {row["_partition"]: WrittenPartition(row["first"], row["last"], row["rows"]) for row in rows},
        )
        self._folder.add(number, part)
        return part
