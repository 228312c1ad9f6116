"""The cases, their rows at full size, and the bar of each figure."""

from __future__ import annotations

from dataclasses import dataclass, field

from benches.spark.columns import COLUMNS, KAFKA

RATE, NET, SPARK = "rows_per_s", "spark_net_us_per_row", "spark_cpu_us_per_row"
BROKER, OTHERS = "broker_cpu_us_per_row", "others_percent"
LIMIT, LIMIT_CPU = "limit", "limit_cpu_us_per_row"
ALL_COLUMNS = tuple(column.name for column in COLUMNS)
KEY_VALUE = ("key", "value")


@dataclass(frozen=True)
class Bar:
    """A bar for a figure of each pybroker column: at most or at least `ratio` times that of the column `against`.

    `limit`: times the limit program's CPU for the same bytes at the same rate with the same syncs.
    """

    ratio: float
    against: str = KAFKA
    at_least: bool = False

    def text(self) -> str:
        """Return the text of the table's column `bar`."""
        return f"{'≥' if self.at_least else '≤'} {self.ratio:.3g} × {self.against}"

    def met(self, ratio: float) -> bool:
        """Return whether a ratio meets the bar."""
        return ratio >= self.ratio if self.at_least else ratio <= self.ratio


@dataclass(frozen=True)
class Case:
    """A Spark job; `kind` is write, read or stream; `rows` at full size; `columns` of a read, all if empty."""

    name: str
    kind: str
    size: int
    rows: int
    bars: dict[str, Bar] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def figures(self) -> tuple[str, ...]:
        """Return the figures of the table."""
        net = (NET,) if self.kind == "write" else ()
        attach = ("staged_mb", "attach_ms") if self.kind == "write" else ()
        return (RATE, *net, SPARK, BROKER, LIMIT_CPU, OTHERS, *attach)

    @property
    def with_limit(self) -> bool:
        """Return whether to run the limit program."""
        return any(bar.against == LIMIT for bar in self.bars.values())


SMALL, LARGE = 10_000_000, 2_000_000
CASES = (
    Case("write 100 B", "write", 100, SMALL, {RATE: Bar(2, at_least=True), NET: Bar(1 / 2), BROKER: Bar(1 / 3)}),
    Case("read 100 B, key and value", "read", 100, SMALL, {RATE: Bar(2.5, at_least=True)}, KEY_VALUE),
    Case("read 100 B, all columns", "read", 100, SMALL),
    Case("stream write 100 B", "stream", 100, SMALL, {RATE: Bar(1.5, at_least=True)}),
    Case("write 1 KiB", "write", 1024, LARGE, {RATE: Bar(1.2, at_least=True), BROKER: Bar(1.25, LIMIT)}),
    Case("read 1 KiB, key and value", "read", 1024, LARGE, {}, KEY_VALUE),
    Case("read 1 KiB, all columns", "read", 1024, LARGE),
)

# A virtual machine returns memory that was freed some seconds ago to its host, and the next use costs several times a
# write. If the limit program is compared, both start after that time.
COLD_S = 12.0

# Without Spark: a separate broker for each flush mode.
ATTACH, ATTACH_GB, ATTACH_S_MAX = "staged commit", 10.0, 1.0
NEIGHBOURS_S, NEIGHBOURS_RATIO_MAX = 20.0, 2.0
NEIGHBOURS: dict[str, dict[str, str]] = {
    "neighbours of a bulk load": {},
    "neighbours, load unbounded": {"ingest.quota.shared.bytes.per.second": str(2**63 - 1)},
}
FLUSH_MODES = {"exactly-once os": {"log.flush.mode": "os"}, "exactly-once": {}}

# Rows per second of the slowest columns on two idle cores, for the estimate of the duration.
_RATES = {
    ("write", 100): 1.2e6,
    ("read", 100): 1.5e6,
    ("stream", 100): 0.8e6,
    ("write", 1024): 5e5,
    ("read", 1024): 8e5,
}
_JOB_S, _START_S = 2.0, 300.0


def estimated_seconds(cases: list[Case], alone: list[str], scale: float, rounds: int) -> float:
    """Return the estimated duration of a run on two idle cores."""
    jobs = sum(len(ALL_COLUMNS) * _seconds(case, scale) for case in cases)
    attach = len(FLUSH_MODES) * (ATTACH_GB * scale / 0.25 + 3) if ATTACH in alone else 0
    neighbours = len(NEIGHBOURS.keys() & set(alone)) * len(FLUSH_MODES) * (3 * neighbour_seconds(scale) + 4)
    return _START_S + rounds * (jobs + attach + neighbours)


def _seconds(case: Case, scale: float) -> float:
    job = case.rows * scale / _RATES[case.kind, case.size]
    return 2 * (job + COLD_S) + _JOB_S if case.with_limit else job + _JOB_S


def neighbour_seconds(scale: float) -> float:
    """Return the seconds of a section: a 99th percentile needs at least a few hundred records."""
    return max(5.0, NEIGHBOURS_S * scale)
