"""Terms of the controller in a metadata quorum. The controller's image is this node's copy of the metadata, and brokers
send it heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from pybroker.broker.cluster.channel import Channels
from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat, OfferVoter, QuorumEvent
from pybroker.broker.controller.activation import FindLocalIds, ShowsTopicIds
from pybroker.broker.controller.broker_sessions import BrokerSessions
from pybroker.broker.controller.decision import require_broker_epoch
from pybroker.broker.controller.internal_events import FinalizeFeatures
from pybroker.broker.controller.offset_relay import OffsetRelay
from pybroker.broker.controller.outbox import MessageAnswered, Outbox
from pybroker.broker.controller.quorum_outbox import QuorumOutbox
from pybroker.broker.controller.quorum_writer import QuorumWriter
from pybroker.broker.controller.request_deduplication import RequestOutcomes
from pybroker.broker.controller.staged_data import StagedData
from pybroker.broker.controller.terms import RegistrationWatch, TermStart
from pybroker.broker.controller.unregistrations import BrokerNotes
from pybroker.broker.controller.voter_changes import VoterChanges
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.quorum.quorum_log import MetadataLog, NotLeaderError
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class QuorumTerms:
    """`ControllerTerms` of one epoch."""

    def __init__(
        self,
        log: MetadataLog,
        loader: MetadataLoader,
        epoch: int,
        broker_id: int,
        session_s: float,
        *,
        offsets: AppliedOffsets,
        answer_fetches: Callable[[], None] = lambda: None,
        idle_interval_s: float = 0,
        bootstrap_users: Mapping[str, Mapping[str, str]] = {},
        changes: VoterChanges | None = None,
    ) -> None:
        """`bootstrap_users` are the users of a new cluster. `answer_fetches` answers the fetches that wait at this
        node. `idle_interval_s`: `metadata.max.idle.interval.ms` in seconds."""
        self._bootstrap_users = bootstrap_users
        self._voter_changes = changes
        self._log = log
        self._loader = loader
        self._epoch = epoch
        self._broker_id = broker_id
        self._sessions = BrokerSessions(
            broker_id, session_s, self._report, offsets, OffsetRelay(offsets, answer_fetches)
        )
        self._idle = IdleRecords(log, epoch, lambda: loader.image.offset, idle_interval_s)
        self._report_event: Callable[[Event[Any]], None] = lambda event: None
        self.staged: StagedData = ImageStagedData(self._image)
        self.notes: BrokerNotes = ImageBrokerNotes(self._image)

    def _image(self) -> ClusterImage:
        return self._loader.image

    def _report(self, event: Event[Any]) -> None:
        self._report_event(event)

    @property
    def sessions(self) -> BrokerSessions:
        """The sessions of the term."""
        return self._sessions

    async def begin(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> TermStart:
        """Return the image at the start of the epoch: this node has already applied the log up to there."""
        del find_local_ids, shows_topic_ids
        image = msgspec.structs.replace(self._loader.image, controller_epoch=self._epoch)
        return TermStart(image, QuorumWriter(self._log, self._epoch))

    async def load_outcomes(self, outcomes: RequestOutcomes) -> None:
        """Load the outcomes from the image."""
        outcomes.take(self._loader.image.outcomes)

    def watch(self, report: Callable[[Event[Any]], None]) -> RegistrationWatch:
        """Start the brokers' sessions."""
        self._report_event = report
        return SessionWatch(self._sessions, self._idle, self._image, self._bootstrap_users, changes=self._voter_changes)

    def outbox(
        self, broker_id: int, channels: Channels, between: str | None, answered: MessageAnswered
    ) -> Outbox:
        """Return the outbox, which sends write fences only."""
        del between, answered
        return QuorumOutbox(broker_id, channels, self._sessions)

    def heartbeat(self, event: BrokerHeartbeat) -> None:
        """Process a heartbeat. Raises KafkaError STALE_BROKER_EPOCH."""
        self._sessions.heartbeat(event)

    async def handle_quorum_event(self, event: QuorumEvent) -> Any:
        """Change or describe the voters. Raises KafkaError."""
        if self._voter_changes is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The metadata log of this broker has no voters.")
        if isinstance(event, OfferVoter):
            require_broker_epoch(self._image(), event.broker_id, event.broker_epoch)
        return await self._voter_changes.handle(event)


class SessionWatch:
    """A `RegistrationWatch` in a quorum, where the image contains the registrations."""

    def __init__(
        self,
        sessions: BrokerSessions,
        idle: IdleRecords,
        image: Callable[[], ClusterImage],
        bootstrap_users: Mapping[str, Mapping[str, str]],
        *,
        changes: VoterChanges | None,
    ) -> None:
        self._voter_changes = changes
        self._bootstrap_users = bootstrap_users
        self._sessions = sessions
        self._idle = idle
        self._image = image

    async def start(self) -> FinalizeFeatures | None:
        """Begin the sessions."""
        image = self._image()
        self._sessions.start(image)
        self._idle.start()
        if self._voter_changes is not None:
            self._voter_changes.lead(True)
        return FinalizeFeatures(self._bootstrap_users) if image.features.metadata_version is None else None

    async def stop(self) -> None:
        """End the sessions."""
        if self._voter_changes is not None:
            self._voter_changes.lead(False)
        await self._idle.stop()
        await self._sessions.stop()


class ImageStagedData:
    """`StagedData` from the image. `Deletions` notices removals by itself."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    async def unheld(self, topics: Collection[Uuid], changed: Callable[[Uuid], None]) -> Collection[Uuid]:
        """Read the marks of staged data in the image."""
        del changed
        marks = self._image().staged.values()
        return [topic_id for topic_id in topics if not any(topic_id in held for held in marks)]


class ImageBrokerNotes:
    """`BrokerNotes` from the image. The decision on `BrokerForgotten` removes the notes."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    async def forget(self, broker_id: int, is_unregistered: Callable[[], bool]) -> bool:
        """Return whether the broker is still unregistered."""
        return is_unregistered() and broker_id not in self._image().brokers


class IdleRecords:
    """Appends records without effect while the metadata does not change (`metadata.max.idle.interval.ms`). Brokers then
    report rising offsets, which proves that they still follow the metadata log. Runs on the loop's thread, for one
    epoch.
    """

    def __init__(self, log: MetadataLog, epoch: int, end_offset: Callable[[], int], interval_s: float) -> None:
        """`end_offset` returns the end of the committed records."""
        self._log = log
        self._epoch = epoch
        self._end_offset = end_offset
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to append records, unless the interval is 0."""
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run(), name="idle-records")

    async def stop(self) -> None:
        """Stop appending records."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        # The epoch has ended, so its controller stops.
        with contextlib.suppress(NotLeaderError):
            while True:
                end = self._end_offset()
                await asyncio.sleep(self._interval_s)
                if self._end_offset() == end:
                    await self._log.confirm(self._epoch)
