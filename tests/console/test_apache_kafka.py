"""The console also shows Apache Kafka, and names the features that Kafka lacks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pybroker.client import AdminClient, NewTopic, Producer, TopicPartition
from tests.console.console_process import Browserless, console, text_of
from tests.support.kinds import KINDS

ABSENT = "Apache Kafka has no equivalent"
SEEN = {
    "/": ABSENT,
    "/brokers": "controller",
    "/brokers/1": "log.retention.ms",
    "/topics": "words",
    "/topics?q=wo": "words",
    "/topics/words": "Next offset",
    "/topics/words/settings": "retention.ms",
    "/topics/words/groups": "readers",
    "/topics/words/history": ABSENT,
    "/topics/words/messages": "value 9",
    "/topics/words/delete": "The topic cannot be undeleted",
    "/groups": "readers",
    "/group?id=readers": "The group has no members",
    "/group/reset?id=readers&goal=earliest": "Nothing has changed yet",
    "/deletions": ABSENT,
    "/acls": "SECURITY_DISABLED",
    "/users": "No user has SCRAM credentials",
    "/quotas": "No quota is set",
    "/ingests": ABSENT,
    "/transactions": "There are no transactions yet",
    "/live": "Records in",
}


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic("words", 2, 1)])
        for number in range(10):
            await producer.send("words", f"value {number}")
        await admin.alter_consumer_group_offsets("readers", {TopicPartition("words", 0): 0})


def test_every_view_of_apache_kafka(tmp_path: Path) -> None:
    kafka = KINDS["kafka"](tmp_path / "kafka", None)
    kafka.start()
    try:
        asyncio.run(_fill(kafka.bootstrap))
        with console(kafka.bootstrap) as address:
            person = Browserless(address)
            for path, said in SEEN.items():
                answer = person.get(path)
                assert answer.status == 200, (path, text_of(answer.text))
                assert said in text_of(answer.text), (path, text_of(answer.text))
            made = person.post("/topics/new", {"name": "fresh", "partitions": "3"})
            assert made.headers["location"].startswith("/topics/fresh")
            gone = person.post("/topics/fresh/delete", {"typed": "fresh", "what": "delete"})
            assert gone.headers["location"].startswith("/topics?")
    finally:
        kafka.end()
