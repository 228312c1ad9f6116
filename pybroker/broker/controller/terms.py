"""What a controller's term needs: the first image, the writer, and the changes that the controller observes besides
events.

With a metadata store the controller reads and watches znodes (`StoreTerms`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.channel import Channels
from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat, QuorumEvent
from pybroker.broker.controller.activation import FindLocalIds, ShowsTopicIds, load_cluster, take_leadership
from pybroker.broker.controller.broker_watch import BrokerWatch
from pybroker.broker.controller.decision_writer import DecisionWriter, Writer
from pybroker.broker.controller.outbox import MessageAnswered, Outbox
from pybroker.broker.controller.request_deduplication import RequestOutcomes
from pybroker.broker.controller.staged_data import StagedData, StoredStagedData
from pybroker.broker.controller.unregistrations import BrokerNotes, StoredBrokerNotes
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_store import MetadataStore
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class TermStart(msgspec.Struct, frozen=True):
    """The state with which a term begins."""

    image: ClusterImage
    writer: DecisionWriter
    unfinished: Collection[str] = ()
    """Topics whose migration to topic ids has not finished."""


class RegistrationWatch(Protocol):
    """Watches the broker registrations."""

    async def start(self) -> Event[Any] | None:
        """Return an event with the registrations that the image lacks. Report later changes."""
        ...

    async def stop(self) -> None:
        """Stop reporting."""
        ...


class ControllerTerms(Protocol):
    """Begins a controller's terms."""

    @property
    def staged(self) -> StagedData:
        """The marks by which brokers record staged data."""
        ...

    @property
    def notes(self) -> BrokerNotes:
        """The znodes that unregistered brokers have left in the store."""
        ...

    async def begin(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> TermStart:
        """Become the controller and load everything.

        Raises LeadershipTakenError if another broker is the controller, LoweredError if the configured protocol version
        is too low for the stored topic ids, DamagedNodeError if a node cannot be read.
        """
        ...

    async def load_outcomes(self, outcomes: RequestOutcomes) -> None:
        """Load the request deduplication log."""
        ...

    def watch(self, report: Callable[[Event[Any]], None]) -> RegistrationWatch:
        """Return the watch of a new term; `report` queues an event."""
        ...

    def outbox(self, broker_id: int, channels: Channels, between: str | None, answered: MessageAnswered) -> Outbox:
        """Return the outbox of a new term."""
        ...

    def heartbeat(self, event: BrokerHeartbeat) -> None:
        """Process a broker's heartbeat. Raises KafkaError."""
        ...

    async def handle_quorum_event(self, event: QuorumEvent) -> Any:
        """Return the reply to an event about the metadata log. Raises KafkaError."""
        ...


class StoreTerms:
    """`ControllerTerms` with a metadata store."""

    def __init__(self, store: MetadataStore, clock: Clock, broker_id: int) -> None:
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self.staged: StagedData = StoredStagedData(store)
        self.notes: BrokerNotes = StoredBrokerNotes(store)

    async def begin(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> TermStart:
        """Write a new controller epoch, then load everything."""
        term = await take_leadership(self._store, self._broker_id, self._clock.wall_ms())
        loaded = await load_cluster(self._store, term, find_local_ids, shows_topic_ids)
        return TermStart(loaded.image, Writer(self._store, term), loaded.unfinished)

    async def load_outcomes(self, outcomes: RequestOutcomes) -> None:
        """Load the outcomes from their znodes."""
        await outcomes.load(self._store)

    def watch(self, report: Callable[[Event[Any]], None]) -> RegistrationWatch:
        """Return a watch of the registrations' znodes."""
        return BrokerWatch(self._store, report)

    def outbox(self, broker_id: int, channels: Channels, between: str | None, answered: MessageAnswered) -> Outbox:
        """Return an outbox that sends every change to every broker."""
        return Outbox(broker_id, channels, between, answered)

    def heartbeat(self, event: BrokerHeartbeat) -> None:
        """Refuse heartbeats: brokers are alive as long as their sessions with the store."""
        del event
        raise KafkaError(ErrorCode.INVALID_REQUEST, "This cluster has a metadata store and takes no heartbeats.")

    async def handle_quorum_event(self, event: QuorumEvent) -> Any:
        """Refuse: there is no metadata log."""
        del event
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "This cluster has no metadata quorum.")
