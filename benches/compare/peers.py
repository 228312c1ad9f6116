"""The compared brokers, each started as its users start it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.java import java_tool
from tests.support.maven import BROKER, jars

# JVM options of Apache Kafka's own start script.
KAFKA_JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip

# Kafka's defaults, except that deleted data is removed soon, to keep the disk from filling up.
COMMON = {"offsets.topic.num.partitions": "50"}
KAFKA = {"file.delete.delay.ms": "500", "broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}
PYBROKER = {"delete.topic.delay.ms": "500"}

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class KafkaPeer(KafkaProcess):
    """Apache Kafka with the JVM settings of its start script."""

    def command(self) -> list[str]:
        *_, main, file = super().command()  # formats the log directory first
        return [java_tool("java"), *KAFKA_JVM, "-cp", f"{jars(BROKER)}/*", main, file]


def kafka(folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
    """Return a single Apache Kafka node."""
    return KafkaPeer(folder, {**COMMON, **KAFKA, **settings})


def pybroker(folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
    """Return a single pybroker node."""
    return PybrokerProcess(folder, {**COMMON, **PYBROKER, **settings})


# Name of the column → factory of the broker; the names say whether an acknowledgement waits for the disk.
PEERS = {
    "kafka": lambda folder: kafka(folder, {}),
    "pybroker os": lambda folder: pybroker(folder, {"log.flush.mode": "os"}),
    "pybroker": lambda folder: pybroker(folder, {}),
    "kafka flush": lambda folder: kafka(folder, {"log.flush.interval.messages": "1"}),
}


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has gone")


def cpu_seconds(pid: int) -> float:
    """Return user plus system time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def timed_start(broker: BrokerProcess) -> float:
    """Start the broker; return the milliseconds from spawning its process to the first Metadata response."""
    broker.command()  # Prepare (Kafka formats its log directory) before the measurement.
    begun = time.monotonic()
    broker.start()
    return (time.monotonic() - begun) * 1e3
