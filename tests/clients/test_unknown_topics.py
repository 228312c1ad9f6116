"""Reading and writing a topic that does not exist: every client ends with an error and does not hang."""

from __future__ import annotations

import pytest

from tests.clients.api import BrokerError, Client, Member
from tests.clients.expectations import PARTITIONS, Polling, records

# The error of each client. Clients that wait for a topic to appear report their own timeout instead of the code.
PRODUCE_ERRORS = {
    "confluent-kafka": {"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC"},
    "kafka-python": {"UNKNOWN_TOPIC_OR_PARTITION", "KafkaTimeoutError"},
    "aiokafka": {"UNKNOWN_TOPIC_OR_PARTITION", "KafkaTimeoutError"},
    "java": {"TimeoutException", "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT"},
    "franz-go": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "sarama": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "kafkajs": {"UNKNOWN_TOPIC_OR_PARTITION"},
}


def test_producing_to_an_unknown_topic_is_an_error(client: Client, topic: str) -> None:
    """Topics are not created automatically here: the broker reports an unknown name."""
    with pytest.raises(BrokerError) as problem:
        client.produce(topic, records(1, partitions=1), unknown_topic_ms=8_000)
    assert problem.value.name in PRODUCE_ERRORS[client.name]


def test_the_broker_lives_on_after_the_error(client: Client, topic: str) -> None:
    """A topic that was unknown a moment ago works as soon as it is created: no client keeps the refusal."""
    client.create_topic(topic, 1)
    assert client.produce(topic, records(3, partitions=1)) == [0, 1, 2]


def _told(member: Member) -> str | None:
    """Return the error that one poll raises, if any; there are no records yet."""
    try:
        assert member.poll(0.3) == []
    except BrokerError as problem:
        return problem.name
    return None


def test_a_group_of_an_unknown_topic_waits_for_it(client: Client, topic: str) -> None:
    """A consumer may subscribe before the topic exists: it may get an error, and gets the records once they exist."""
    member = client.join(f"{topic}-group", topic)
    polling = Polling(member)
    for _ in range(4):
        assert _told(member) in {None, "UNKNOWN_TOPIC_OR_PARTITION"}
    assert member.assignment() == set()
    client.create_topic(topic, PARTITIONS)
    client.produce(topic, records(40))
    polling.until_received(40)
    member.close()
