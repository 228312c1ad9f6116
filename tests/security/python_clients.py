"""Python's three clients. Each writes a record, reads one in a group, and commits: see `franz/main.go`.

A login is mechanism, user and password with colons between them, or a `security.protocol` without login.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

Outcome = tuple[str, str]
"""The results of writing and reading: "ok", or the name of the error."""

SECONDS = 120
"""Time limit that only a failure reaches."""


def confluent(bootstrap: str, topic: str, group: str, login: str) -> Outcome:
    """Run librdkafka."""
    fatal: list[str] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "error_cb": lambda error: fatal.append(error.name()) if error.name() in {"_AUTHENTICATION", "_SSL"} else None,
        "log_level": 0,
    }
    if ":" in login:
        mechanism, user, password = login.split(":")
        settings |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
    else:
        settings["security.protocol"] = login

    def produce() -> str:
        reports: list[str] = []
        producer = confluent_kafka.Producer({**settings, "message.timeout.ms": SECONDS * 1000})
        producer.produce(
            topic, b"confluent", on_delivery=lambda error, _: reports.append(error.name() if error else "ok")
        )
        for _ in range(SECONDS * 10):
            if reports or fatal:
                break
            producer.poll(0.1)
        producer.purge()
        return (fatal + reports)[0]

    def consume() -> str:
        fatal.clear()
        consumer = confluent_kafka.Consumer(
            {**settings, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe([topic])
        try:
            for _ in range(SECONDS * 10):
                message = consumer.poll(0.1)
                if fatal:
                    return fatal[0]
                if message is not None:
                    problem = message.error()
                    if problem is not None:
                        return str(problem.name())
                    consumer.commit(asynchronous=False)
                    return "ok"
            return "nothing"
        finally:
            consumer.close()

    return produce(), consume()


def kafka_python(bootstrap: str, topic: str, group: str, login: str) -> Outcome:
    """Run kafka-python."""
    settings = _settings(bootstrap, login)
    # The client retries a wrong password until this time.
    settings["bootstrap_timeout_ms"] = 2_000 if settings.get("sasl_plain_password") == "wrong" else 60_000

    def produce() -> None:
        producer = kafka.KafkaProducer(**settings, max_block_ms=SECONDS * 1000)
        with contextlib.closing(producer):
            producer.send(topic, b"kafka-python").get(SECONDS)

    def consume() -> None:
        consumer = kafka.KafkaConsumer(
            topic, **settings, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        with contextlib.closing(consumer):
            assert consumer.poll(timeout_ms=SECONDS * 1000)
            consumer.commit()

    return _outcome(produce), _outcome(consume)


def _settings(bootstrap: str, login: str) -> dict[str, Any]:
    if ":" not in login:
        return {"bootstrap_servers": bootstrap, "security_protocol": login}
    mechanism, user, password = login.split(":")
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def _outcome(work: Callable[[], None]) -> str:
    try:
        work()
    except kafka.errors.KafkaError as error:
        return type(error).__name__
    return "ok"


def aiokafka_client(bootstrap: str, topic: str, group: str, login: str) -> Outcome:
    """Run aiokafka."""
    settings = _settings(bootstrap, login)

    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            async with asyncio.timeout(SECONDS):
                await producer.send_and_wait(topic, b"aiokafka")
        finally:
            await producer.stop()

    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        try:
            async with asyncio.timeout(SECONDS):
                await consumer.start()
                await consumer.getone()
            await consumer.commit()
        finally:
            await consumer.stop()

    outcomes = []
    for work in (produce, consume):
        try:
            asyncio.run(work())
            outcomes.append("ok")
        except (aiokafka.errors.KafkaError, TimeoutError) as error:
            outcomes.append(type(error).__name__)
    return outcomes[0], outcomes[1]
