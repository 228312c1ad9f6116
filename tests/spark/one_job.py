"""Runs a Spark job in its own driver, for tests that kill the driver or another process of the job: `python -m
tests.spark.one_job '{…}'`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa

SCHEMA = "key string, value string"
WAIT_S = 1200.0
TASKS = 4
# Rows at a time, and bytes of a record batch: both are so small that a waiting task has already staged some rows.
ROWS, BATCH_BYTES = 100, "1000"
HELD_AFTER = 3


@dataclass(frozen=True)
class Job:
    """A load of `count` rows. With `held`, the first attempt of task 1 waits after some batches: it writes the process
    id of its executor to `folder`/held, and continues when `folder`/go exists."""

    master: str
    bootstrap: str
    topic: str
    ingest_id: str
    count: int
    folder: str
    held: bool = False
    conf: dict[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Run the job."""
        return [sys.executable, "-m", "tests.spark.one_job", json.dumps(asdict(self))]


def main() -> None:
    """The driver's program."""
    job = Job(**json.loads(sys.argv[1]))
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS), **job.conf}
    words = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{words} pyspark-shell"
    from examples.roundtrip.spark import session

    spark = session([], master=job.master)
    folder, held = Path(job.folder), job.held

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if held and context.partitionId() == 1 and number == HELD_AFTER:
                if context.attemptNumber() > 0:
                    (folder / "again").touch()
                else:
                    # The executor has started pyspark's daemon, which has forked this worker.
                    daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()
                    (folder / "held.new").write_text(daemon[1])
                    (folder / "held.new").rename(folder / "held")
                    give_up = time.monotonic() + WAIT_S
                    while not (folder / "go").exists() and time.monotonic() < give_up:
                        time.sleep(0.02)
            yield batch

    rows = spark.range(0, job.count, 1, TASKS).selectExpr(
        "concat('v-key-', id % 97) AS key", "concat('v-', id) AS value"
    )
    options = {
        "kafka.bootstrap.servers": job.bootstrap,
        "kafka.batch.size": BATCH_BYTES,
        "topic": job.topic,
        "ingestId": job.ingest_id,
    }
    rows.mapInArrow(pass_on, SCHEMA).write.format("pybroker").options(**options).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main()
