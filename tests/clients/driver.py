"""Clients in other languages, and other releases of Python clients: a child process that reads one command per line and
answers with one line of JSON each.

Command: `{"op": …, arguments}`. Answer: `{"ok": result}` or `{"error": Kafka's name of the code, "detail": …}`.
Operations and arguments are those of `tests.clients.api`; the child numbers members.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.clients.api import (
    ALL_ACKS,
    UNKNOWN_TOPIC_MS,
    Acks,
    BrokerError,
    Client,
    Member,
    Producer,
    Received,
    Record,
)
from tests.support import go, java, maven, node

ANSWER_TIMEOUT_S = 180.0
HERE = Path(__file__).parent


class _Child:
    """The child process and its pipes: it gets a command only after it has answered the previous one."""

    def __init__(self, command: Sequence[str], folder: Path | None) -> None:
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, op: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A child that never answers must not hang the test: killing it ends the readline below.
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise RuntimeError(f"the child ended or gave no answer to {op} within {ANSWER_TIMEOUT_S} s")
        answer = json.loads(line)
        if "error" in answer:
            raise BrokerError(answer["error"], answer.get("detail", ""))
        return answer["ok"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _received(rows: list[list[Any]]) -> list[Received]:
    return [
        Received(partition, offset, key, value, tuple((name, text) for name, text in headers))
        for partition, offset, key, value, headers in rows
    ]


class DriverMember(Member):
    """A consumer in the child process, known by its number."""

    def __init__(self, child: _Child, number: int) -> None:
        self._child, self._number = child, number

    def poll(self, timeout_s: float) -> list[Received]:
        return _received(self._child.ask("poll", member=self._number, timeout_ms=int(timeout_s * 1000)))

    def assignment(self) -> set[int]:
        return set(self._child.ask("assignment", member=self._number))

    def commit(self, offsets: dict[int, int]) -> None:
        self._child.ask("commit", member=self._number, offsets=[list(pair) for pair in offsets.items()])

    def forget(self) -> None:
        self._child.ask("forget", member=self._number)

    def close(self) -> None:
        self._child.ask("leave", member=self._number)


class DriverProducer(Producer):
    """A producer in the child process, known by its number."""

    def __init__(self, child: _Child, number: int) -> None:
        self._child, self._number = child, number

    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        rows = [[record.partition, record.key, record.value, record.headers] for record in records]
        return list(self._child.ask("send", producer=self._number, topic=topic, records=rows))

    def forget(self, topic: str) -> None:
        self._child.ask("purge", producer=self._number, topic=topic)

    def close(self) -> None:
        self._child.ask("shut", producer=self._number)


class DrivenClient(Client):
    """A client library in another process."""

    def __init__(self, command: Sequence[str], folder: Path | None = None) -> None:
        self._child = _Child(command, folder)

    def create_topic(self, topic: str, partitions: int) -> None:
        self._child.ask("create", topic=topic, partitions=partitions)

    def delete_topic(self, topic: str) -> None:
        self._child.ask("delete", topic=topic)

    def producer(
        self, acks: Acks = ALL_ACKS[2], compression: str = "none", unknown_topic_ms: int = UNKNOWN_TOPIC_MS
    ) -> Producer:
        how = {"acks": acks.acks, "idempotent": acks.idempotent, "compression": compression}
        return DriverProducer(self._child, self._child.ask("open", **how, unknown_topic_ms=unknown_topic_ms))

    def read(self, topic: str, partitions: int, count: int) -> list[Received]:
        return _received(self._child.ask("read", topic=topic, partitions=partitions, count=count))

    def join(self, group: str, topic: str) -> Member:
        return DriverMember(self._child, self._child.ask("join", group=group, topic=topic))

    def close(self) -> None:
        self._child.close()


class JavaClient(DrivenClient):
    """Apache Kafka's own Java client."""

    name = "java"

    def __init__(self, bootstrap: str) -> None:
        class_path = java.compiled(HERE / "java" / "ClientDriver.java", maven.jars(maven.CLIENTS))
        super().__init__(java.java_command(class_path, "ClientDriver", [bootstrap]))


class FranzClient(DrivenClient):
    """franz-go."""

    name = "franz-go"

    def __init__(self, bootstrap: str) -> None:
        super().__init__([str(go.built(HERE / "go")), "franz", bootstrap])


class SaramaClient(DrivenClient):
    """sarama."""

    name = "sarama"

    def __init__(self, bootstrap: str) -> None:
        super().__init__([str(go.built(HERE / "go")), "sarama", bootstrap])


class KafkajsClient(DrivenClient):
    """kafkajs."""

    name = "kafkajs"

    def __init__(self, bootstrap: str) -> None:
        super().__init__([str(node.NODE), str(node.installed(node.KAFKAJS / "driver.js", node.KAFKAJS)), bootstrap])


class _InNewerGroups(DrivenClient):
    """A client whose groups use the consumer protocol (KIP-848)."""

    def join(self, group: str, topic: str) -> Member:
        return DriverMember(self._child, self._child.ask("join", group=group, topic=topic, newer=True))


class NewerFranzClient(_InNewerGroups, FranzClient):
    """franz-go with its option ServerSideBalancer."""


class NewerJavaClient(_InNewerGroups, JavaClient):
    """Apache Kafka's own Java client with `group.protocol=consumer`."""
