"""Options of the command line, and the plan made from them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from pybroker.cli.options import broker_options
from pybroker.cli.records.record_options import client_settings
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.target import Target

SECONDS = 10.0
"""Default duration of a run."""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """One run. `records` and `seconds` end it; None means no limit."""

    target: Target
    records: int | None
    seconds: float | None
    size: int
    partitions: int
    replication_factor: int
    topic: str | None
    """An existing topic; None creates one and removes it afterwards."""
    settings: dict[str, str]
    """Settings of the producer or consumer, under Kafka's names."""

    def client(self, **own: object) -> dict[str, Any]:
        """Return client settings from three sources: the command, the file, and the user's options. A later source
        overrides an earlier source."""
        ours = {name.replace("_", "."): value for name, value in own.items()}
        return {**ours, **self.target.client_config(), **self.settings}

    def is_over(self, done: int, started_s: float) -> bool:
        """Return whether the run has reached a limit."""
        if self.records is not None and done >= self.records:
            return True
        return self.seconds is not None and time.monotonic() - started_s >= self.seconds


def plan_options(*, size: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of all three commands; the function gets them as `plan`: Plan. `size` is the default size of a
    value."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option("--records", type=click.IntRange(min=1), metavar="N", help="Stop after this many records.")
        @click.option(
            "--seconds",
            type=click.FloatRange(min=0, min_open=True),
            help=f"Stop after this time; default: {SECONDS:g} if --records is not given.",
        )
        @click.option(
            "--size",
            type=click.IntRange(min=16, max=64 << 20),
            default=size,
            show_default=True,
            metavar="BYTES",
            help="Size of each value.",
        )
        @click.option(
            "--partitions",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Partitions of the new topic.",
        )
        @click.option(
            "--replication-factor",
            type=click.IntRange(min=1),
            help="Replicas of the new topic; default: the brokers' setting.",
        )
        @click.option(
            "--topic", metavar="NAME", shell_complete=topic_names, help="Use this existing topic and keep it."
        )
        @client_settings
        @broker_options
        @functools.wraps(command)
        def with_plan(
            *args: object,
            records: int | None,
            seconds: float | None,
            size: int,
            partitions: int,
            replication_factor: int | None,
            topic: str | None,
            settings: dict[str, str],
            target: Target,
            **rest: object,
        ) -> None:
            if records is None and seconds is None:
                seconds = SECONDS
            factor = -1 if replication_factor is None else replication_factor
            command(*args, plan=BenchPlan(target, records, seconds, size, partitions, factor, topic, settings), **rest)

        return with_plan

    return decorate


def producer_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--acks` and `--compression`; the function gets them by these names."""
    command = click.option(
        "--compression",
        type=click.Choice(COMPRESSIONS),
        default="none",
        show_default=True,
        help="Compression of record batches.",
    )(command)
    return click.option(
        "--acks",
        type=click.Choice(("all", "1", "0")),
        default="all",
        show_default=True,
        help="Required acknowledgements.",
    )(command)


def producer_config(plan: BenchPlan, acks: str, compression: str, **own: object) -> dict[str, Any]:
    """Return settings of the producer. Idempotence requires acks=all."""
    return plan.client(acks=acks, compression_type=compression, enable_idempotence=acks == "all", **own)
