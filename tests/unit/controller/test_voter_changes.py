"""Which of the brokers that offer themselves the leader turns into voters, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from pybroker.broker.cluster.quorum_events import OfferVoter, UnregisterController
from pybroker.broker.controller import voter_changes
from pybroker.broker.controller.voter_changes import VoterChanges
from pybroker.broker.metadata.image import BrokerImage, ClusterImage
from pybroker.broker.quorum.quorum_node import QuorumNode
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.native_quorum import QuorumReplica
from pybroker.protocol.error_codes import ErrorCode

DIRECTORIES = {node: Uuid.random() for node in range(1, 8)}


class Status:
    """The status as the native node returns it."""

    def __init__(self, node_id: int, directory_id: Uuid, caught_up_ms: int) -> None:
        self.node_id, self.directory_id, self.caught_up_ms = node_id, directory_id, caught_up_ms


class FakeNode:
    """A leader whose changes are committed at once."""

    def __init__(self, voters: Sequence[int], observers: Sequence[int], lagging: Sequence[int] = ()) -> None:
        self.role = "Leader"
        self.voters = [Status(node, DIRECTORIES[node], 0) for node in voters]
        self.observers = [Status(node, DIRECTORIES[node], -1 if node in lagging else 0) for node in observers]
        self.changes: list[tuple[str, int, Uuid]] = []

    def status(self) -> FakeNode:
        return self

    async def add_voter(self, voter: QuorumReplica, endpoints: Any) -> None:
        del endpoints
        self.changes.append(("add", voter.node_id, voter.directory_id))
        self.voters.append(Status(voter.node_id, voter.directory_id, 0))
        self.observers = [one for one in self.observers if one.directory_id != voter.directory_id]

    async def remove_voter(self, voter: QuorumReplica) -> None:
        self.changes.append(("remove", voter.node_id, voter.directory_id))
        self.voters = [one for one in self.voters if one.directory_id != voter.directory_id]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voter_changes, "PROMOTION_S", 0.001)
    monkeypatch.setattr(voter_changes, "JOINING_S", 0.001)


async def changes_of(node: FakeNode, offers: Sequence[int], *, racks: str = "aaaaaaa", wanted: int = 3) -> Any:
    """Return the leader's changes after these brokers have offered themselves as voters."""
    changes = VoterChanges(cast(QuorumNode, node), 1, wanted)
    brokers = {broker_id: BrokerImage(broker_id, 1, (), rack) for broker_id, rack in enumerate(racks, 1)}
    image = msgspec.structs.replace(ClusterImage.initial(0), brokers=brokers)
    changes.image = lambda: image
    for broker_id in offers:
        await changes.handle(OfferVoter(broker_id, 1, DIRECTORIES[broker_id], ()))
    changes.lead(True)
    for _ in range(20):
        await asyncio.sleep(0.002)
    changes.lead(False)
    return node.changes


def added(*brokers: int) -> list[tuple[str, int, Uuid]]:
    return [("add", broker, DIRECTORIES[broker]) for broker in brokers]


async def test_up_to_the_target_by_id() -> None:
    assert await changes_of(FakeNode([1], [2, 3, 4, 5]), [5, 4, 3, 2]) == added(2, 3)
    assert await changes_of(FakeNode([1], [2, 3, 4, 5]), [5, 4, 3, 2], wanted=5) == added(2, 3, 4, 5)
    assert await changes_of(FakeNode([1, 2, 3], [4]), [4]) == []


async def test_racks_without_a_voter_come_first() -> None:
    assert await changes_of(FakeNode([1], [2, 3, 4, 5]), [2, 3, 4, 5], racks="aaabb") == added(4, 2)
    assert await changes_of(FakeNode([1], [2, 3, 4, 5]), [2, 3, 4, 5], racks="aaabc") == added(4, 5)


async def test_observers_that_lag_or_do_not_offer_themselves_wait() -> None:
    assert await changes_of(FakeNode([1], [2, 3, 4], lagging=[2]), [2, 4]) == added(4)


async def test_another_directory_replaces_the_old_voter() -> None:
    node = FakeNode([1, 2, 3], [2])
    old = Uuid.random()
    node.voters[1].directory_id = old
    assert await changes_of(node, [2]) == [("remove", 2, old), *added(2)]


async def test_another_directory_that_lags_replaces_nothing() -> None:
    node = FakeNode([1, 2, 3], [2], lagging=[2])
    node.voters[1].directory_id = Uuid.random()
    assert await changes_of(node, [2]) == []


@pytest.mark.parametrize(
    ("node_id", "code"),
    [
        pytest.param(1, ErrorCode.INVALID_REQUEST, id="the leader"),
        pytest.param(2, ErrorCode.INVALID_REQUEST, id="a voter that is down"),
        pytest.param(5, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, id="unknown"),
    ],
)
async def test_only_a_known_node_that_does_not_vote_is_unregistered_as_a_controller(
    node_id: int, code: ErrorCode
) -> None:
    node = FakeNode([1, 2], [3])
    changes = VoterChanges(cast(QuorumNode, node), 1, 3)
    down = {broker_id: BrokerImage(broker_id, 1, (), None) for broker_id in (2, 4)}
    live = {broker_id: BrokerImage(broker_id, 1, (), None) for broker_id in (1, 3)}
    image = msgspec.structs.replace(ClusterImage.initial(0), brokers=live, fenced=down)
    changes.image = lambda: image
    for gone in (3, 4):
        assert await changes.handle(UnregisterController(gone)) is None
    with pytest.raises(KafkaError) as refused:
        await changes.handle(UnregisterController(node_id))
    assert refused.value.code == code
    node.role = "Follower"
    with pytest.raises(KafkaError) as refused:
        await changes.handle(UnregisterController(3))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
