"""Staged ingests in a cluster: a decided commit was prepared on the in-sync replicas, and no other replica becomes
leader or joins the ISR before the commit is linked."""

from __future__ import annotations

import msgspec
import pytest

from pybroker.broker.cluster.events import (
    AlterIsr,
    CommitIngest,
    DropIngests,
    ElectedPartition,
    ElectLeaders,
    FinishIngest,
    IsrChange,
    ReopenIngest,
    TouchIngests,
)
from pybroker.broker.controller.election_decisions import decide_elect_leaders
from pybroker.broker.controller.ingest_decisions import (
    decide_commit_ingest,
    decide_drop_ingests,
    decide_finish_ingest,
    decide_reopen_ingest,
    decide_touch_ingests,
)
from pybroker.broker.controller.isr_decisions import decide_alter_isr
from pybroker.broker.controller.leader_election import linking_partitions, may_elect_uncleanly
from pybroker.broker.ingest.ingest_changes import changes_of
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING, IngestKey, decode_ingest
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster, created
from tests.unit.controller.test_ingest_decisions import opened, refusal

EPOCH = 7
"""The leader epoch of the ingest's partitions."""
LIFE = 1
"""Broker epoch of every broker of `cluster`."""


@pytest.fixture
def image() -> ClusterImage:
    """Two partitions on three brokers; broker 3 is in sync with none."""
    image = created(cluster(1, 2, 3), "a", partitions=2, factor=3)
    topic_id = image.topics["a"].topic_id
    leaders = [one.leader for one in image.topics["a"].partitions]
    for index, leader in enumerate(leaders):
        members = tuple((broker, -1) for broker in (1, 2, 3) if broker != 3 or broker == leader)
        shrunk = IsrChange(topic_id, index, 0, members, 0)
        image = image.apply(decide_alter_isr(image, AlterIsr(leader, LIFE, (shrunk,))).delta)
    return opened(image, (topic_id, "job", -1))


def job(image: ClusterImage) -> IngestKey:
    return image.topics["a"].topic_id, "job", -1


def versions(image: ClusterImage) -> dict[int, int]:
    return {index: one.state_version for index, one in enumerate(image.topics["a"].partitions)}


def commit(image: ClusterImage, *, reopened: int = 0) -> CommitIngest:
    rows = {0: (3, 99), 1: (1, 70)}
    return CommitIngest(job(image), EPOCH, rows, 60, 1234, reopened, versions(image))


def expand(image: ClusterImage, index: int) -> tuple[ClusterImage, int]:
    """Let the leader propose all replicas for the ISR."""
    state = image.topics["a"].partitions[index]
    members = tuple((broker, LIFE) for broker in (1, 2, 3))
    change = IsrChange(image.topics["a"].topic_id, index, state.leader_epoch, members, state.state_version)
    decision = decide_alter_isr(image, AlterIsr(state.leader, LIFE, (change,)))
    return image.apply(decision.delta), decision.reply[0].error_code


@pytest.mark.checklist("R33")
def test_nothing_is_decided_that_was_prepared_for_others_in_sync(image: ClusterImage) -> None:
    prepared = commit(image)
    changed, error = expand(image, 0)
    assert error == ErrorCode.NONE
    assert refusal(lambda: decide_commit_ingest(changed, prepared)) == ErrorCode.INVALID_UPDATE_VERSION
    decided = decide_commit_ingest(changed, commit(changed)).reply
    assert (decided.state, decided.plan) == (COMMITTING, 1234)
    assert decode_ingest(decided.path, decided.encode()) == decided


@pytest.mark.checklist("R33")
def test_what_was_prepared_before_a_commit_that_came_to_nothing_is_not_decided(image: ClusterImage) -> None:
    late = commit(image)
    again = image.apply(decide_reopen_ingest(image, ReopenIngest(job(image), EPOCH)).delta)
    assert refusal(lambda: decide_commit_ingest(again, late)) == ErrorCode.INVALID_TXN_STATE
    assert decide_commit_ingest(again, commit(again, reopened=1)).reply.state == COMMITTING
    assert decide_reopen_ingest(image, ReopenIngest(job(image), EPOCH - 1)).operations == (), "another epoch"


@pytest.mark.checklist("R33")
def test_nobody_else_comes_into_sync_or_leads_before_it_is_attached(image: ClusterImage) -> None:
    lossy = msgspec.structs.replace(image, unclean_elections=True)
    assert may_elect_uncleanly(lossy, lossy.topics["a"])
    decided = lossy.apply(decide_commit_ingest(lossy, commit(lossy)).delta)
    topic_id = job(image)[0]
    assert linking_partitions(decided, topic_id) == {0, 1}
    assert expand(decided, 0)[1] == ErrorCode.INELIGIBLE_REPLICA
    assert not may_elect_uncleanly(decided, decided.topics["a"])
    nobody = [msgspec.structs.replace(one, leader=-1) for one in decided.topics["a"].partitions]
    topic = msgspec.structs.replace(decided.topics["a"], partitions=tuple(nobody))
    dead = msgspec.structs.replace(decided, topics={"a": topic}, brokers={3: decided.brokers[3]})
    [outcome] = decide_elect_leaders(dead, ElectLeaders(True, (ElectedPartition("a", 0),))).reply
    assert outcome.error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

    # Each leader reports its own partition, which is then free. The ingest is complete when all partitions are
    # reported.
    one = decide_finish_ingest(decided, FinishIngest(job(image), {0: (10, 13)}))
    assert one.reply.state == COMMITTING
    decided = decided.apply(one.delta)
    assert linking_partitions(decided, topic_id) == {1}
    assert expand(decided, 0)[1] == ErrorCode.NONE
    assert expand(decided, 1)[1] == ErrorCode.INELIGIBLE_REPLICA
    assert decide_finish_ingest(decided, FinishIngest(job(image), {0: (99, 102)})).operations == (), "it is known"
    both = decide_finish_ingest(decided, FinishIngest(job(image), {0: (99, 102), 1: (5, 6)})).reply
    assert both.state == COMMITTED
    assert [(part.base_offset, part.end_offset) for part in both.partitions.values()] == [(10, 13), (5, 6)]


def test_who_takes_records_has_it_written_down(image: ClusterImage) -> None:
    touched = image.apply(decide_touch_ingests(image, TouchIngests(((job(image), EPOCH, 900),))).delta)
    assert touched.ingests[job(image)].last_ms == 900
    for stale in ((job(image), EPOCH, 900), (job(image), EPOCH - 1, 901), ((job(image)[0], "other", -1), 1, 901)):
        assert decide_touch_ingests(touched, TouchIngests((stale,))).operations == ()


def test_what_a_broker_does_about_changes(image: ClusterImage) -> None:
    key = job(image)
    before = msgspec.structs.replace(image, ingests={})
    begun = changes_of(before, image, image)
    assert [record.key for record in begun.opened] == [key]
    reopen = decide_reopen_ingest(image, ReopenIngest(key, EPOCH)).delta
    assert changes_of(image, image.apply(reopen), reopen).reopened
    touch = decide_touch_ingests(image, TouchIngests(((key, EPOCH, 900),))).delta
    assert changes_of(image, image.apply(touch), touch) == ([], [], [], False)
    drop = decide_drop_ingests(image, DropIngests(open=((key, EPOCH),))).delta
    assert changes_of(image, image.apply(drop), drop).over == [image.ingests[key]]

    # A decided commit keeps its files until all of them are linked, even if the broker missed the change itself.
    decision = decide_commit_ingest(image, commit(image)).delta
    decided = image.apply(decision)
    for change in (decision, decided):
        found = changes_of(image, decided, change)
        assert (found.over, found.may_attach) == ([], True)
    finish = decide_finish_ingest(decided, FinishIngest(key, {0: (0, 3), 1: (0, 1)})).delta
    finished = decided.apply(finish)
    assert [record.directory for record in changes_of(decided, finished, finish).over] == [image.ingests[key].directory]
    assert changes_of(image, finished, finished).over
    gone = msgspec.structs.replace(decided, committed_ingests={})
    assert changes_of(decided, gone, gone).over, "forgotten with its topic"
