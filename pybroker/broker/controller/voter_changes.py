"""Changes of the voters (KIP-853). The leader of the metadata log makes them when an administrator requests it, or when
it promotes a broker that offers itself.

The leader promotes one broker at a time, and prefers racks without a voter. A broker that offers itself under a new
directory id has lost its disk. In this case the leader first removes the voter with the old directory id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pybroker.broker.cluster.quorum_events import (
    AddVoter,
    DescribeQuorum,
    OfferVoter,
    QuorumAddress,
    QuorumEvent,
    QuorumReplicaState,
    QuorumState,
    RemoveVoter,
    TransferQuorumLeader,
    UnregisterController,
)
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.quorum.quorum_node import ProposalError, QuorumNode
from pybroker.errors import KafkaError
from pybroker.native_quorum import QuorumEndpoint, QuorumReplica, QuorumReplicaStatus, QuorumStatus
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

PAUSE_S = 0.05
"""Seconds before the leader tries a change again, and between two checks of its effect."""
PROMOTION_S, JOINING_S = 0.2, 0.02
"""Seconds between two searches for brokers to promote, while brokers offer themselves. The shorter interval applies
while voters are missing.
"""
OFFER_S = 3.0
"""Seconds after which an offer is void unless the broker repeats it."""
TRANSFER_MS_MAX = 10_000


class VoterOffer(NamedTuple):
    """A broker that offers itself as a voter."""

    replica: QuorumReplica
    endpoints: Sequence[QuorumEndpoint]
    at: float


class VoterChanges:
    """The voter changes of one node; used on the loop's thread."""

    def __init__(self, node: QuorumNode, node_id: int, voters_wanted: int) -> None:
        """`voters_wanted`: the target number of voters. The leader promotes brokers until it is reached."""
        self._node = node
        self._node_id = node_id
        self._voters_wanted = voters_wanted
        self._offers: dict[int, VoterOffer] = {}
        self._offered = asyncio.Event()
        self._turn = asyncio.Lock()
        self._promotion: asyncio.Task[None] | None = None
        self.image: Callable[[], ClusterImage] = partial(ClusterImage.initial, 0)
        """Returns the current image."""

    def lead(self, leads: bool) -> None:
        """Begin or stop to promote brokers."""
        if leads and self._promotion is None:
            self._promotion = asyncio.get_running_loop().create_task(self._promote(), name="quorum-voters")
        elif not leads and self._promotion is not None:
            self._promotion.cancel()
            self._promotion = None
            self._offers.clear()

    async def handle(self, event: QuorumEvent) -> Any:
        """As the leader, return the reply to an event. Raises KafkaError."""
        match event:
            case DescribeQuorum():
                return self.describe()
            case OfferVoter():
                replica = QuorumReplica(event.broker_id, event.directory_id)
                endpoints = _endpoints(event.broker_id, event.addresses)
                self._offers[event.broker_id] = VoterOffer(replica, endpoints, asyncio.get_running_loop().time())
                self._offered.set()
            case AddVoter():
                await self._add(event)
            case RemoveVoter():
                await self._remove(QuorumReplica(event.node_id, event.directory_id))
            case UnregisterController():
                self._unregister(event.controller_id)
            case TransferQuorumLeader():
                return await self._transfer(event)
        return None

    def describe(self) -> QuorumState:
        """Return the state of the quorum. Raises KafkaError NOT_CONTROLLER if this node does not lead."""
        status = self._leading()
        return QuorumState(
            self._node_id,
            status.epoch,
            status.high_watermark,
            tuple(map(self._state, status.voters)),
            tuple(map(self._state, status.observers)),
        )

    def _state(self, replica: QuorumReplicaStatus) -> QuorumReplicaState:
        addresses = [QuorumAddress(known.listener, known.host, known.port) for known in replica.endpoints]
        broker = self.image().brokers.get(replica.node_id)
        if not addresses and broker is not None:
            # Fetch requests contain no addresses, but registrations do.
            addresses = [QuorumAddress(known.listener, known.host, known.port) for known in broker.endpoints]
        return QuorumReplicaState(
            replica.node_id,
            replica.directory_id,
            replica.end_offset,
            replica.fetched_ms,
            replica.caught_up_ms,
            tuple(addresses),
        )

    def _rack_of(self, broker_id: int) -> str | None:
        broker = self.image().brokers.get(broker_id)
        return None if broker is None else broker.rack

    def _leading(self) -> QuorumStatus:
        status = self._node.status()
        if status.role != "Leader":
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker no longer leads the metadata quorum.")
        return status

    # --- changes of administrators ------------------------------------------------------------------------------------

    async def _add(self, event: AddVoter) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + event.timeout_ms / 1000
        replica = QuorumReplica(event.node_id, event.directory_id)
        adding = loop.create_task(self._add_until(replica, _endpoints(event.node_id, event.addresses), until))
        while not event.when_committed and not adding.done() and not _votes(self._node.status(), replica):
            await asyncio.wait([adding], timeout=PAUSE_S)
        if event.when_committed or adding.done():
            await adding
        else:
            adding.add_done_callback(_retrieve)
        log.info("added voter node=%d directory_id=%s", event.node_id, event.directory_id)

    async def _add_until(self, replica: QuorumReplica, endpoints: Sequence[QuorumEndpoint], until: float) -> None:
        while True:
            try:
                async with self._turn:
                    await self._node.add_voter(replica, endpoints)
                return
            except ProposalError as error:
                if error.code != ErrorCode.REQUEST_TIMED_OUT or asyncio.get_running_loop().time() >= until:
                    raise _client_error(error, replica) from None
            await asyncio.sleep(PAUSE_S)
            self._leading()

    async def _remove(self, replica: QuorumReplica) -> None:
        try:
            async with self._turn:
                await self._node.remove_voter(replica)
        except ProposalError as error:
            raise _client_error(error, replica) from None
        self._offers.pop(replica.node_id, None)
        log.info("removed voter node=%d directory_id=%s", replica.node_id, replica.directory_id)

    def _unregister(self, node_id: int) -> None:
        """Confirm that the node is no controller. A node is a controller as long as it is a voter."""
        status = self._leading()
        if node_id == self._node_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
        if node_id in {voter.node_id for voter in status.voters}:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Controller {node_id} is a voter of the metadata quorum: remove it as a voter first (`pybroker "
                "cluster quorum remove`, or `kafka-metadata-quorum remove-controller`).",
            )
        image = self.image()
        if node_id not in image.brokers and node_id not in image.fenced:
            raise KafkaError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {node_id} is not registered.")
        log.info("unregistered controller node=%d", node_id)

    async def _transfer(self, event: TransferQuorumLeader) -> int:
        before, successor = self._leading(), event.successor
        if successor == self._node_id:
            return successor
        others = [voter.node_id for voter in before.voters if voter.node_id != self._node_id]
        if successor is not None and successor not in others:
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"Node {successor} is no voter.")
        if not others:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "There is no other voter.")
        loop = asyncio.get_running_loop()
        until = loop.time() + min(event.timeout_ms, TRANSFER_MS_MAX) / 1000
        self._node.resign(successor)
        status = before
        while status.epoch == before.epoch or status.leader is None:
            if loop.time() >= until:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "No voter has been elected within the timeout.")
            await asyncio.sleep(PAUSE_S)
            status = self._node.status()
        return status.leader

    # --- promotion ----------------------------------------------------------------------------------------------------

    async def _promote(self) -> None:
        joining = False
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(JOINING_S if joining else PROMOTION_S if self._offers else None):
                    await self._offered.wait()
            self._offered.clear()
            try:
                async with self._turn:
                    joining = await self._promote_one()
            except ProposalError as problem:
                log.debug("voters are not changed yet: %s", problem)

    async def _promote_one(self) -> bool:
        """Promote the best broker that has caught up. Return whether voters are still missing while brokers offer
        themselves."""
        status, now = self._node.status(), asyncio.get_running_loop().time()
        self._offers = {node_id: offer for node_id, offer in self._offers.items() if now - offer.at < OFFER_S}
        voters = {voter.node_id: voter.directory_id for voter in status.voters}
        caught_up = {
            (observer.node_id, observer.directory_id) for observer in status.observers if observer.caught_up_ms >= 0
        }
        offers = [
            offer
            for offer in self._offers.values()
            if (offer.replica.node_id, offer.replica.directory_id) in caught_up
        ]
        for offer in offers:
            node_id, old = offer.replica.node_id, voters.get(offer.replica.node_id)
            if old is not None:
                await self._node.remove_voter(QuorumReplica(node_id, old))
                log.warning("removed voter with lost directory node=%d directory_id=%s", node_id, old)
                voters.pop(node_id)
        if not self._offers or len(voters) >= self._voters_wanted:
            return False
        if not offers:
            return True
        racks = {self._rack_of(voter) for voter in voters}
        best = min(offers, key=lambda offer: (self._rack_of(offer.replica.node_id) in racks, offer.replica.node_id))
        await self._node.add_voter(best.replica, best.endpoints)
        self._offers.pop(best.replica.node_id, None)
        log.info("added voter node=%d directory_id=%s", best.replica.node_id, best.replica.directory_id)
        return True


def _votes(status: QuorumStatus, replica: QuorumReplica) -> bool:
    key = replica.node_id, replica.directory_id
    return any((voter.node_id, voter.directory_id) == key for voter in status.voters)


def _endpoints(node_id: int, addresses: Sequence[QuorumAddress]) -> list[QuorumEndpoint]:
    return [QuorumEndpoint(node_id, address.listener, address.host, address.port) for address in addresses]


def _client_error(error: ProposalError, replica: QuorumReplica) -> KafkaError:
    """Return the error to send to the client."""
    node = f"Node {replica.node_id}"
    if error.maybe_committed:
        # Do not return NOT_CONTROLLER: the client would repeat the request, and its own change would make the second
        # attempt fail.
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The leader changed meanwhile. Read the voters before you try again."
        )
    says = {
        ErrorCode.DUPLICATE_VOTER: f"{node} is a voter already.",
        ErrorCode.VOTER_NOT_FOUND: f"{node} with directory {replica.directory_id} is no voter.",
        ErrorCode.INVALID_REQUEST: f"{node} is the only voter.",
        ErrorCode.REQUEST_TIMED_OUT: (
            f"{node} with directory {replica.directory_id} has not caught up, or another change of the voters is "
            "not committed yet."
        ),
    }
    return KafkaError(error.code, says.get(ErrorCode(error.code), error.message))


def _retrieve(done: asyncio.Task[None]) -> None:
    if not done.cancelled():
        done.exception()
