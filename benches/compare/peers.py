"""The brokers that are compared, each started as its users start it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.java import java_tool
from tests.support.maven import BROKER, jars

# What Apache Kafka's own start script gives the JVM of a broker.
KAFKA_JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip

# Kafka's defaults, but for what keeps the disk from filling up with what the cases have deleted.
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
    """Apache Kafka, one node."""
    return KafkaPeer(folder, {**COMMON, **KAFKA, **settings})


def pybroker(folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
    """The product, one node."""
    return PybrokerProcess(folder, {**COMMON, **PYBROKER, **settings})


# Each column of the table: how the broker is made, and whether an acknowledgement waits for the disk.
PEERS = {
    "kafka": lambda folder: kafka(folder, {}),
    "pybroker os": lambda folder: pybroker(folder, {"log.flush.mode": "os"}),
    "pybroker": lambda folder: pybroker(folder, {}),
    "kafka flush": lambda folder: kafka(folder, {"log.flush.interval.messages": "1"}),
}


def resident_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has gone")


def cpu_seconds(pid: int) -> float:
    """User plus system time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def timed_start(broker: BrokerProcess) -> float:
    """Starts the broker; milliseconds from spawning its process until Metadata is answered."""
    broker.command()  # what must be there before (Kafka's formatting) does not count
    begun = time.monotonic()
    broker.start()
    return (time.monotonic() - begun) * 1e3
