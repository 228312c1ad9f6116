"""Instances of a Kafka Streams application with the streams protocol, and their output."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer, Producer

from tests.groups.kit import unique
from tests.support.java import compiled, java_command
from tests.support.maven import STREAMS_LIBRARY, jars

SOURCE = Path(__file__).parent / "java" / "WordCount.java"
WAIT_S = 120
QUICK = {
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "200",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
}
"""Settings of brokers with short delays."""


def until(condition: Callable[[], bool], what: str, *instances: Instance) -> None:
    """Wait for a condition, while all instances run."""
    give_up = time.monotonic() + WAIT_S
    while not condition():
        told = "\n".join("\n".join(instance.lines[-30:]) for instance in instances)
        assert time.monotonic() < give_up, f"not in {WAIT_S} s: {what}\n{told}"
        time.sleep(0.05)


class Instance:
    """A process of the application `WordCount`."""

    def __init__(
        self, bootstrap: str, application: str, topics: tuple[str, str], folder: Path, *arguments: str, **config: str
    ) -> None:
        libraries = jars(STREAMS_LIBRARY)
        settings = {
            "application.id": application,
            "bootstrap.servers": bootstrap,
            "group.protocol": "streams",
            "state.dir": str(folder / unique("state")),
            "commit.interval.ms": "200",
            "statestore.cache.max.bytes": "0",
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        command = java_command(
            compiled(SOURCE, libraries),
            "WordCount",
            [*topics, *(f"{name}={value}" for name, value in settings.items()), *arguments],
        )
        command.insert(1, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    def __enter__(self) -> Instance:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def state(self) -> str:
        """The last reported state."""
        return next((line.split()[1] for line in reversed(self.lines) if line.startswith("state ")), "")

    @property
    def tasks(self) -> frozenset[str]:
        """Return the running tasks: `a` and the id for an active task, `s` and the id for a standby."""
        told = next((line for line in reversed(self.lines) if line.startswith("tasks")), "tasks")
        return frozenset(told.split()[1:])

    def stop(self) -> None:
        """Stop the instance, which leaves the group."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.ended()

    def ended(self) -> None:
        """Return whether the instance has ended."""
        self._process.wait(WAIT_S)
        self._reader.join()
        assert "closed" in self.lines, "\n".join(self.lines[-30:])

    def kill(self) -> None:
        """Kill the instance."""
        self._process.kill()
        self._process.wait()
        self._reader.join()


def say(bootstrap: str, topic: str, lines: Iterable[str]) -> None:
    """Write lines to the application's input, over all partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number, line in enumerate(lines):
        producer.produce(topic, line, key=str(number))
    assert producer.flush(WAIT_S) == 0


class Counts:
    """The application's last count of each word."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": unique("counts"),
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])
        self.of: dict[str, int] = {}
        self.records = 0

    def __enter__(self) -> Counts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def reach(self, wanted: dict[str, int], *instances: Instance) -> None:
        """Wait until the application has these counts."""

        def reached() -> bool:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                self.of[key.decode()] = int.from_bytes(value, "big")
                self.records += 1
            return self.of == wanted

        until(reached, f"{wanted}, but {self.of}", *instances)
