"""Deleted topics are undeleted, and topics are truncated, while brokers are down."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import TopicPartition, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.groups.kit import WAIT_S
from tests.support.cluster import running_cluster, until
from tests.support.lives_in_cluster import Everywhere
from tests.transactions.test_straight_path import send_offsets, transactional


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Everywhere]:
    """Three brokers; every test leaves them running."""
    with running_cluster(tmp_path_factory.mktemp("undone"), survives_two_losses(store), store=store) as cluster:
        yield Everywhere(cluster)


@pytest.mark.checklist("R22", "R32", "U3")
def test_a_topic_comes_back_without_a_broker_that_is_down(brokers: Everywhere) -> None:
    controller = brokers.controller()
    away = min({1, 2, 3} - {controller})
    topic_id = brokers.create("back")
    brokers.written("back", "one")
    until(lambda: brokers.isr("back", controller) == {1, 2, 3})
    brokers.cluster.brokers[away].stop()
    brokers.written("back", "two")
    assert brokers.at(controller).delete(topic_id).error_code == 0
    answer = brokers.at(controller).undelete(topic_id)
    assert (answer.error_code, answer.name) == (0, "back")
    until(lambda: brokers.read("back") == ["one", "two"])
    until(lambda: brokers.isr("back", controller) == {1, 2, 3} - {away})
    brokers.cluster.brokers[away].start()
    until(lambda: brokers.isr("back", controller) == {1, 2, 3})
    assert brokers.records_of(away, "back-0") == brokers.records_of(controller, "back-0")
    until(lambda: brokers.at(controller).deletions(topic_id) == [])


@pytest.mark.checklist("R32", "U3")
def test_only_who_was_in_sync_leads_what_comes_back(brokers: Everywhere) -> None:
    """The only complete replica is down: the undelete waits for it, although the other replica is available."""
    controller = brokers.controller()
    behind, ahead = sorted({1, 2, 3} - {controller})
    topic_id = brokers.at(controller).create_on("waited", [behind, ahead])
    brokers.written("waited", "both")
    until(lambda: brokers.isr("waited", controller) == {behind, ahead})
    brokers.cluster.brokers[behind].kill()
    until(lambda: brokers.isr("waited", controller) == {ahead})
    brokers.written("waited", "one of them")
    brokers.cluster.brokers[ahead].kill()
    assert brokers.at(controller).delete(topic_id).error_code == 0
    brokers.cluster.brokers[behind].start()
    wanted = m.UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id, new_name=None)
    request = m.UndeleteTopicsRequest(topics=[wanted], timeout_ms=1_000)

    def begun() -> bool:
        # In that time, a loaded machine may not even make the decision.
        assert brokers.at(controller).call(request, 0).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        return [one.state for one in brokers.at(controller).deletions(topic_id)] == ["undeleting"]

    until(begun)
    assert brokers.at(controller).metadata("waited").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    brokers.cluster.brokers[ahead].start()
    until(lambda: brokers.leader("waited", controller) == ahead)
    until(lambda: brokers.read("waited") == ["both", "one of them"])
    until(lambda: brokers.isr("waited", controller) == {behind, ahead})
    assert brokers.records_of(behind, "waited-0") == brokers.records_of(ahead, "waited-0")


@pytest.mark.checklist("U2", "R10", "A5")
def test_a_topic_is_truncated_while_a_broker_is_down(brokers: Everywhere) -> None:
    controller = brokers.controller()
    away = min({1, 2, 3} - {controller})
    old = brokers.create("cut")
    brokers.written("cut", "old")
    until(lambda: brokers.isr("cut", controller) == {1, 2, 3})
    brokers.cluster.brokers[away].stop()
    answer = brokers.at(controller).truncate("cut", keep_offsets=True)
    assert answer.error_code == 0
    brokers.written("cut", "new")
    brokers.cluster.brokers[away].start()
    until(lambda: brokers.isr("cut", controller) == {1, 2, 3})
    leader = brokers.leader("cut", controller)
    assert leader is not None
    until(lambda: brokers.at(leader).read("cut", offset=1) == ["new"])
    assert b"old" not in brokers.records_of(away, "cut-0")
    assert b"old" in brokers.records_of(away, f"deleting/{old.hex}_0")
    assert brokers.at(controller).undelete(old, "was-cut").error_code == 0
    until(lambda: brokers.isr("was-cut", controller) == {1, 2, 3})
    until(lambda: brokers.read("was-cut") == ["old"])


@pytest.mark.checklist("U2", "U3", "R32")
def test_groups_of_all_coordinators_get_their_offsets_back(brokers: Everywhere) -> None:
    """The test covers an undeleted topic and a truncated one."""
    old = brokers.create("kept")
    brokers.written("kept", "one")
    brokers.written("kept", "two")
    groups = [f"group-{number}" for number in range(6)]
    at = {group: number % 2 + 1 for number, group in enumerate(groups)}
    with blocking.AdminClient({"bootstrap.servers": brokers.cluster.bootstrap}) as admin:

        def committed(name: str) -> dict[str, int]:
            found = {group: admin.list_consumer_group_offsets(group).get(TopicPartition(name, 0)) for group in groups}
            return {group: got.offset for group, got in found.items() if got is not None}

        for group in groups:
            admin.alter_consumer_group_offsets(group, {TopicPartition("kept", 0): at[group]}).all()
        described = admin.describe_groups(groups).all()
        assert len({one.coordinator for one in described.values()}) > 1
        controller = brokers.controller()
        assert brokers.at(controller).delete(old).error_code == 0
        assert brokers.at(controller).undelete(old).error_code == 0
        until(lambda: committed("kept") == at)
        until(lambda: brokers.at(controller).deletions(old) == [])
        # Later commits of groups are kept.
        at = dict.fromkeys(groups, 1)
        for group in groups:
            admin.alter_consumer_group_offsets(group, {TopicPartition("kept", 0): 1}).all()
        assert brokers.at(controller).truncate("kept", keep_offsets=True).error_code == 0
        until(lambda: committed("kept") == at)
        assert brokers.at(controller).undelete(old, "was-kept").error_code == 0
        until(lambda: committed("was-kept") == at)
        until(lambda: brokers.at(controller).deletions(old) == [])
        assert committed("kept") == at


@pytest.mark.checklist("U3", "R32")
def test_offsets_of_a_paused_coordinator_come_back(brokers: Everywhere) -> None:
    """The coordinator answers the write fence after the deletion was decided without it."""
    topic_id = brokers.create("paused")
    brokers.written("paused", "one")
    groups = [f"paused-{number}" for number in range(6)]
    controller = brokers.controller()
    with blocking.AdminClient({"bootstrap.servers": brokers.cluster.bootstrap}) as admin:
        for group in groups:
            admin.alter_consumer_group_offsets(group, {TopicPartition("paused", 0): 1}).all()
        described = admin.describe_groups(groups).all()
        coordinators = {one.coordinator for one in described.values()}
        slow = brokers.cluster.brokers[min(coordinators - {controller})]
        os.kill(slow.pid, signal.SIGSTOP)
        try:
            assert brokers.at(controller).delete(topic_id).error_code == 0
        finally:
            os.kill(slow.pid, signal.SIGCONT)
        assert brokers.at(controller).undelete(topic_id).error_code == 0
        until(lambda: brokers.at(controller).deletions(topic_id) == [])

        def committed() -> set[str]:
            wanted = TopicPartition("paused", 0)
            return {group for group in groups if admin.list_consumer_group_offsets(group).get(wanted) is not None}

        until(lambda: committed() == set(groups))


@pytest.mark.checklist("A31", "U3", "R22", "R32", "E11")
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_open_transactions_come_back_at_all_coordinators(brokers: Everywhere, commits: bool) -> None:
    """A coordinator that is not the controller is killed while the topic is deleted and the transaction is open."""
    name = f"open-{commits}"
    topic_id = brokers.create(name)
    brokers.written(name, "one")
    brokers.written(name, "two")
    groups = [f"{name}-{number}" for number in range(6)]
    wanted = TopicPartition(name, 0)
    bootstrap = brokers.cluster.bootstrap
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        for group in groups:
            admin.alter_consumer_group_offsets(group, {wanted: 1}).all()
        coordinators = {one.coordinator for one in admin.describe_groups(groups).all().values()}
        producer = transactional(bootstrap, name)
        producer.begin_transaction()
        for group in groups:
            send_offsets(producer, bootstrap, group, name, 2)
        controller = brokers.controller()
        assert brokers.at(controller).delete(topic_id).error_code == 0
        killed = brokers.cluster.brokers[min(coordinators - {controller})]
        killed.kill()
        killed.start()
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
        controller = brokers.controller()
        assert brokers.at(controller).undelete(topic_id).error_code == 0

        def committed() -> dict[str, int]:
            found = {group: admin.list_consumer_group_offsets(group).get(wanted) for group in groups}
            return {group: got.offset for group, got in found.items() if got is not None}

        until(lambda: committed() == dict.fromkeys(groups, 2 if commits else 1))
        until(lambda: brokers.at(brokers.controller()).deletions(topic_id) == [])
        assert committed() == dict.fromkeys(groups, 2 if commits else 1)


@pytest.mark.checklist("U3", "R32")
def test_offsets_come_back_though_their_coordinator_dies_before_the_controller_has_them(tmp_path: Path) -> None:
    """The coordinator answers the write fence too late. It dies before it has sent the offsets that the deletion record
    lacks."""
    with running_cluster(tmp_path, module=("tests.cluster.dies_keeping", str(tmp_path))) as cluster:
        brokers = Everywhere(cluster)
        topic_id = brokers.create("owed")
        brokers.written("owed", "one")
        groups = [f"owed-{number}" for number in range(6)]
        controller, wanted = brokers.controller(), TopicPartition("owed", 0)
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            for group in groups:
                admin.alter_consumer_group_offsets(group, {wanted: 1}).all()
            coordinators = {one.coordinator for one in admin.describe_groups(groups).all().values()}
            slow = cluster.brokers[min(coordinators - {controller})]
            (tmp_path / f"die-{slow.broker_id}").touch()
            os.kill(slow.pid, signal.SIGSTOP)
            try:
                assert brokers.at(controller).delete(topic_id).error_code == 0
            finally:
                os.kill(slow.pid, signal.SIGCONT)
            until(lambda: not slow.running)
            assert brokers.at(controller).undelete(topic_id).error_code == 0

            def committed() -> set[str]:
                return {group for group in groups if admin.list_consumer_group_offsets(group).get(wanted) is not None}

            until(lambda: committed() == set(groups))


@pytest.mark.checklist(80, 81, 121, 144, "X7", "R32", "A9")
def test_no_undelete_begins_once_a_broker_may_remove_data(brokers: Everywhere) -> None:
    """The delay on one broker ends before that on the others: together they have only half of the topic."""
    controller = brokers.controller()
    hasty = brokers.cluster.brokers[max({1, 2, 3} - {controller})]
    hasty.settings["delete.topic.delay.ms"] = "0"
    hasty.restart()
    topic_id = brokers.create("closed")
    brokers.written("closed", "one")
    until(lambda: brokers.isr("closed", controller) == {1, 2, 3})
    assert brokers.at(controller).delete(topic_id).error_code == 0
    until(lambda: not (hasty.data_dir / "closed-0").exists())
    until(lambda: not list((hasty.data_dir / "deleting").glob(f"{topic_id.hex}_*")))
    answer = brokers.at(controller).undelete(topic_id)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert "is gone" in answer.error_message
    until(lambda: b"one" in brokers.records_of(controller, f"deleting/{topic_id.hex}_0"))
    # When all replicas have been removed, only the controller's deletion record is left.
    only = brokers.at(controller).create_on("ended", [hasty.broker_id])
    assert brokers.at(controller).delete(only).error_code == 0
    until(lambda: [one.state for one in brokers.at(controller).deletions(only)] == ["removed"])
    assert only not in {one.topic_id for one in brokers.at(controller).deletions()}
    assert not list((hasty.data_dir / "deleting").glob(f"{only.hex}_*"))
    del hasty.settings["delete.topic.delay.ms"]
    hasty.restart()
