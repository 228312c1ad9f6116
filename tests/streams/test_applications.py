"""Kafka Streams with group.protocol=streams: its topics are created, and its tasks are assigned, moved and copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.groups.kit import create_topic, unique
from tests.streams.kit import QUICK, Counts, Instance, say, until
from tests.support.brokers import PybrokerProcess
from tests.support.wire import free_port
from tests.transactions.test_metrics import scraped

GROUPS = "kafka_server_group_coordinator_metrics"
TASKS = frozenset({"a0_0", "a0_1", "a1_0", "a1_1"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    settings = {
        **QUICK,
        "metrics.listener": f"127.0.0.1:{free_port()}",
        "group.streams.session.timeout.ms": "5000",
        "group.streams.num.standby.replicas": "1",
    }
    broker = PybrokerProcess(Path(tmp_path_factory.mktemp("streams")), settings)
    broker.start()
    yield broker
    broker.stop()


def test_an_application_counts_words_and_goes_on_after_a_crash(broker: PybrokerProcess, tmp_path: Path) -> None:
    topics = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 2)
    application = unique("words")
    say(broker.bootstrap, topics[0], ["to be or not", "to be"])
    with (
        Instance(broker.bootstrap, application, topics, tmp_path) as instance,
        Counts(broker.bootstrap, topics[1]) as counts,
    ):
        counts.reach({"to": 2, "be": 2, "or": 1, "not": 1}, instance)
        until(lambda: instance.tasks == TASKS, "it runs all tasks, and nobody has copies", instance)
        broker.restart(crash=True)
        say(broker.bootstrap, topics[0], ["that is", "to be"])
        counts.reach({"to": 3, "be": 3, "or": 1, "not": 1, "that": 1, "is": 1}, instance)
        instance.stop()


def test_two_instances_share_and_the_one_that_lives_goes_on(broker: PybrokerProcess, tmp_path: Path) -> None:
    topics = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 2)
    application = unique("words")
    with (
        Instance(broker.bootstrap, application, topics, tmp_path) as one,
        Instance(broker.bootstrap, application, topics, tmp_path) as two,
        Counts(broker.bootstrap, topics[1]) as counts,
    ):

        def shared() -> bool:
            """Return whether each instance has two active tasks, and standby copies of the other's tasks."""
            copies = {task.replace("a1", "s1") for task in TASKS if task.startswith("a1")}
            return one.tasks | two.tasks == TASKS | copies and not one.tasks & two.tasks and len(one.tasks) == 3

        until(shared, "the tasks are shared out", one, two)
        say(broker.bootstrap, topics[0], ["one two", "two one", "one one"])
        counts.reach({"one": 4, "two": 2}, one, two)
        figures = scraped(broker)
        assert figures[f'{GROUPS}_group_count{{protocol="streams"}}'] >= 1
        assert figures[f'{GROUPS}_streams_group_count{{state="stable"}}'] == 1
        assert figures[f"{GROUPS}_streams_group_rebalance_count"] >= 1
        one.kill()
        until(lambda: two.tasks == TASKS, "all tasks are at the other one", two)
        say(broker.bootstrap, topics[0], ["one two"])
        counts.reach({"one": 5, "two": 3}, two)
        with Instance(broker.bootstrap, application, topics, tmp_path) as third:
            until(lambda: len(third.tasks) == len(two.tasks) == 3, "a third one gets its share", two, third)
            say(broker.bootstrap, topics[0], ["two"])
            counts.reach({"one": 5, "two": 4}, two, third)
            third.stop()
        until(lambda: two.tasks == TASKS, "it has left", two)


def test_a_fatal_word_ends_the_whole_application(broker: PybrokerProcess, tmp_path: Path) -> None:
    topics = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 2)
    application = unique("words")
    with (
        Instance(broker.bootstrap, application, topics, tmp_path, "die=end") as one,
        Instance(broker.bootstrap, application, topics, tmp_path, "die=end") as two,
    ):
        until(lambda: len(one.tasks) == len(two.tasks) == 3, "the tasks are shared out", one, two)
        say(broker.bootstrap, topics[0], ["the end"])
        for instance in (one, two):
            instance.ended()
        assert {one.state, two.state} <= {"ERROR", "NOT_RUNNING", "PENDING_ERROR"}
