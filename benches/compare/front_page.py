"""Updates the rows of README.md that these benches measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benches.compare.case import CPU_GB, CPU_REQUEST, RATE
from benches.compare.cases import DURABLE, KAFKA, OS
from benches.readme import shown

README = Path(__file__).resolve().parents[2] / "README.md"
PEERS = (KAFKA, OS, DURABLE)
Middle = Callable[[str, str, str], float | None]
"""(case, system, figure) → the measured median, None if it was not measured."""


@dataclass(frozen=True)
class Row:
    """A row with its title: figures of one case, each with a divisor and a unit."""

    label: str
    case: str
    figures: tuple[tuple[str, float, str], ...]

    def cells(self, middle: Middle) -> list[str]:
        """Return a cell for each of PEERS; empty without a measurement."""
        made = []
        for peer in PEERS:
            values = [(middle(self.case, peer, name), by, unit) for name, by, unit in self.figures]
            made.append("; ".join(f"{shown(value / by)}{unit}" for value, by, unit in values if value is not None))
        return made


ROWS = (
    Row(
        "one 100 B record a request, broker CPU",
        "1 × 100 B a request, 4 connections",
        ((CPU_REQUEST, 1, " µs"),),
    ),
    Row("the same, requests/s", "1 × 100 B a request, 4 connections", ((RATE, 1, ""),)),
    Row("66 KB batches, requests/s", "66 KB batches, 4 connections", ((RATE, 1, ""),)),
    Row("fetch of 1 MiB a partition, CPU s/GB", "fetch 1 MiB a partition, 4 connections", ((CPU_GB, 1, ""),)),
    Row("end to end at 5,000/s, p99", "end to end, 5,000/s, 16 partitions", (("p99_ms", 1, " ms"),)),
    Row("Metadata of 1,000 topics, CPU", "Metadata of 1,000 topics", ((CPU_REQUEST, 1, " µs"),)),
    Row(
        "start to first answer; idle resident memory",
        "start; idle",
        (("start_ms", 1, " ms"), ("resident_mib", 1, " MiB")),
    ),
    Row(
        "restart after kill -9 with 10,000 partitions",
        "10 topics × 1,000 partitions",
        (("kill_restart_ms", 1000, " s"),),
    ),
)


def replaced(page: str, middle: Middle) -> str:
    """Replace the measured rows of a page by name; other rows stay.

    Raises ValueError for a row that the page does not have.
    """
    lines = page.split("\n")
    for row in ROWS:
        cells = row.cells(middle)
        at = [number for number, line in enumerate(lines) if line.startswith(f"| {row.label} |")]
        if len(at) != 1:
            raise ValueError(f"the page has {len(at)} rows {row.label!r}, not one")
        if any(cells):
            lines[at[0]] = f"| {row.label} | {' | '.join(cells)} |"
    return "\n".join(lines)


def publish(middle: Middle) -> None:
    """Write the measurements into README.md."""
    README.write_text(replaced(README.read_text(), middle))
