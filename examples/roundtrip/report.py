"""The results of a job: a row for each topic."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from examples.roundtrip import texts

TABLE_WIDTH = 110


@dataclass(frozen=True)
class Row:
    """One topic's result."""

    topic: str
    topic_id: str
    by_spark: texts.Digest
    by_confluent: texts.Copy
    seconds: float

    def equal(self, expected: texts.Copy) -> bool:
        """Return whether both readers found exactly the records of the files; confluent-kafka also in the files'
        order."""
        return (
            self.by_spark == expected.digest
            and self.by_confluent.digest == expected.digest
            and self.by_confluent.order() == expected.order()
        )


def report(console: Console, rows: list[Row], expected: texts.Copy, partitions: int, files: int) -> None:
    """Print the rows, with full details of differences."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{files:,} files, {expected.digest.records:,} lines, {expected.digest.size_bytes:,} bytes",
    )
    for heading in ("topic", "topic id", "partitions", "records", "bytes", "seconds", "digest equal"):
        table.add_column(heading, justify="left" if heading.startswith("topic") else "right")
    for row in rows:
        found = row.by_confluent.digest
        table.add_row(
            row.topic,
            row.topic_id,
            str(partitions),
            f"{found.records:,}",
            f"{found.size_bytes:,}",
            f"{row.seconds:.1f}",
            "yes" if row.equal(expected) else "NO",
        )
    # Use a minimum width: a topic id cut off at the edge of a narrow terminal would be useless.
    Console(width=max(console.width, TABLE_WIDTH)).print(table)
    for row in rows:
        if not row.equal(expected):
            order = "in order" if row.by_confluent.order() == expected.order() else "NOT in order"
            console.print(
                f"{row.topic}: files {expected.digest}, Spark {row.by_spark}, confluent-kafka "
                f"{row.by_confluent.digest} {order}"
            )
