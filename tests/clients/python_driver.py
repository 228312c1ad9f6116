"""A Python client that reads one JSON command per line; `tests.clients.driver` describes the protocol.

`python -m tests.clients.python_driver FAMILY BOOTSTRAP`, run by the interpreter of an environment that has another
release of the library than the tests have. That environment has nothing else of the tests' environment.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from typing import Any

from tests.clients.api import Acks, BrokerError, Client, Member, Producer, Received, Record

ADAPTERS = {
    "kafka-python": "tests.clients.kafka_python:KafkaPython",
    "aiokafka": "tests.clients.aiokafka_client:Aiokafka",
    "confluent-kafka": "tests.clients.confluent:Confluent",
}


def _row(record: Received) -> list[Any]:
    return [record.partition, record.offset, record.key, record.value, record.headers]


class _Driver:
    """Runs one command after the other with a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._members: list[Member] = []
        self._producers: list[Producer] = []

    def run(self, command: dict[str, Any]) -> Any:
        match command["op"]:
            case "create":
                return self._client.create_topic(command["topic"], command["partitions"])
            case "delete":
                return self._client.delete_topic(command["topic"])
            case "open":
                acks = Acks(command["acks"], command["idempotent"])
                self._producers.append(
                    self._client.producer(acks, command["compression"], command["unknown_topic_ms"])
                )
                return len(self._producers) - 1
            case "read":
                found = self._client.read(command["topic"], command["partitions"], command["count"])
                return [_row(record) for record in found]
            case "join":
                self._members.append(self._client.join(command["group"], command["topic"]))
                return len(self._members) - 1
            case "send" | "purge" | "shut":
                return self._of_producer(self._producers[command["producer"]], command)
            case _:
                return self._of_member(self._members[command["member"]], command)

    def _of_producer(self, producer: Producer, command: dict[str, Any]) -> Any:
        match command["op"]:
            case "send":
                records = [
                    Record(partition, key, value, tuple((name, text) for name, text in headers))
                    for partition, key, value, headers in command["records"]
                ]
                return producer.send(command["topic"], records)
            case "purge":
                return producer.forget(command["topic"])
            case _:
                return producer.close()

    def _of_member(self, member: Member, command: dict[str, Any]) -> Any:
        match command["op"]:
            case "poll":
                return [_row(record) for record in member.poll(command["timeout_ms"] / 1000)]
            case "assignment":
                return sorted(member.assignment())
            case "commit":
                return member.commit(dict(command["offsets"]))
            case "forget":
                return member.forget()
            case "leave":
                return member.close()
            case unknown:
                raise ValueError(f"no such operation: {unknown}")


def main() -> None:
    """Answer commands until there are no more."""
    family, bootstrap = sys.argv[1:]
    module, _, name = ADAPTERS[family].partition(":")
    client = getattr(importlib.import_module(module), name)(bootstrap)
    driver = _Driver(client)
    for line in sys.stdin:
        try:
            answer = {"ok": driver.run(json.loads(line))}
        except BrokerError as problem:
            answer = {"error": problem.name, "detail": str(problem)}
        except Exception as problem:
            answer = {"error": type(problem).__name__, "detail": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
    client.close()


if __name__ == "__main__":
    main()
