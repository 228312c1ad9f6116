"""The controller: the only writer of the cluster's metadata.

One loop processes events in order. For each event, a pure function decides; one multi makes the decision durable and
checks the controller epoch. Then the controller applies the decision to the image, sends it to the brokers and
responds. Because of this order, brokers and clients never see a change that a crash can undo. If a write fails because
the epoch has changed, another broker is the controller, and this broker resigns. An event that is refused, or that
needs no write, has no multi that could check the epoch. Before it responds to such an event, the controller therefore
reads the epoch from the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.channel import Channels
from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.quorum_events import QuorumEvent, ReplicasRestored, ReplicasStopped
from pybroker.broker.controller.activation import FindLocalIds, ShowsTopicIds
from pybroker.broker.controller.authorization import AclEvaluator, AuthorizedEvent, authorize_event
from pybroker.broker.controller.completion import DecisionCompleter, DurableDecision
from pybroker.broker.controller.confirmations import ConfirmationListeners, Confirmations
from pybroker.broker.controller.decision import Decision, FencedTopics, require_broker_epoch, rule_of
from pybroker.broker.controller.decision_modules import DECISION_MODULES
from pybroker.broker.controller.decision_writer import DecisionWriter, ResignedError
from pybroker.broker.controller.deletion_tracker import Deletions
from pybroker.broker.controller.event_size import has_many_elements, run_apart
from pybroker.broker.controller.internal_events import ElectAnyLeaders, FinishMigrations, RemoveLeftovers
from pybroker.broker.controller.leader_balance import LeaderBalance
from pybroker.broker.controller.leader_election import allows_more, unclean_elections_of
from pybroker.broker.controller.local_controller_client import LocalControllerClient, Submission
from pybroker.broker.controller.migration_decisions import Migrations
from pybroker.broker.controller.mutation_quota import COSTS, ITEMS, MutationUsage, count_mutations
from pybroker.broker.controller.outbox import ChangeDelivery, OwedOrders, SentChange
from pybroker.broker.controller.pending_removals import PendingRemovals
from pybroker.broker.controller.request_deduplication import RequestOutcomes
from pybroker.broker.controller.running_reassignments import Reassignments
from pybroker.broker.controller.terms import ControllerTerms
from pybroker.broker.controller.unregistrations import Unregistrations
from pybroker.broker.controller.write_fence import WriteFences
from pybroker.broker.metadata.broadcast import Messages
from pybroker.broker.metadata.deletion_records import REMOVED
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.errors import FatalError, KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

APART_MIN = 20_000
"""Number of topics or partitions from which on pure work runs in a thread."""

R = TypeVar("R")

assert DECISION_MODULES, "the decisions are registered"


class Controller:
    """One controller. `start` makes this broker the controller; events arrive through the `LocalControllerClient`."""

    def __init__(
        self,
        *,
        client: LocalControllerClient,
        terms: ControllerTerms,
        clock: Clock,
        broker_id: int,
        channels: Channels,
        between: str | None,
        settings: Mapping[str, Any],
        unclean_elections: bool,
        on_fatal: Callable[[FatalError], None],
        mutations: MutationUsage,
        acls: AclEvaluator | None = None,
    ) -> None:
        """`between` is the name of the inter-broker listener, None if there is none. `settings` are this broker's
        effective settings; `unclean_elections` is the value from its configuration file. `mutations` has the quotas of
        clients for creating and deleting partitions. `acls` authorizes clients; it is None if no authorizer is
        configured.
        """
        self._client = client
        self._terms = terms
        self._broker_id = broker_id
        self._on_fatal = on_fatal
        self._image = ClusterImage.initial(0)
        self._writer: DecisionWriter
        self._migrations = Migrations()
        self._deletions = Deletions(
            terms.staged, client, self._send_deletions_again, lambda: settings["topic.history.max.incarnations"]
        )
        self._pending_removals = PendingRemovals(client, self._send_departures_again)
        self._unregistrations = Unregistrations(terms.notes, client, lambda: self._image)
        self._confirmations = Confirmations(
            ConfirmationListeners(self._migrations, self._deletions, self._pending_removals),
            lambda: self._image,
            self._report,
            self._send_whole,
        )
        self._outbox = terms.outbox(broker_id, channels, between, self._confirmations.answered)
        self._fences = WriteFences(broker_id, self._outbox)
        self._completer = DecisionCompleter(client, self._deletions, clock.wall_ms)
        self._outcomes = RequestOutcomes(clock.wall_ms) if between is not None else None
        self._brokers = terms.watch(self._report)
        self._balance = None if between is None else LeaderBalance(client, settings)
        self._reassignments = Reassignments(client)
        self._unclean = unclean_elections
        self._mutations = mutations
        self._acls = acls
        self.resigned = asyncio.Event()
        """Set when the store has refused a write, because another controller is active or because another program wrote
        to the store (`overwritten` is then True)."""
        self.overwritten = False
        """True if another program wrote to the store."""
        self._loop: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Become the controller and load everything; send nothing before the load is complete.

        Raises LoweredError if topics have ids but the configured protocol version has none.
        """
        start = await self._terms.begin(find_local_ids, shows_topic_ids)
        self._writer = start.writer
        if self._outcomes is not None:
            await self._terms.load_outcomes(self._outcomes)
        self._image = self._with_unclean_elections(start.image)
        if self._acls is not None:
            self._acls.follow(self._image, self._image)
        gone = self._migrations.start(self._image, start.unfinished)
        # The event with the registrations comes first, because the other decisions need the brokers. It makes the
        # brokers known and elects leaders for their partitions.
        self._client.heartbeats = self._terms.heartbeat
        first = self._client.open(await self._brokers.start())
        if first is not None:
            self._spawn(self._recorded("what is registered", first))
        self._loop = asyncio.create_task(self._run(), name="controller")
        # Do this before the first messages to brokers: they include the brokers' pending deletions and replica
        # removals.
        self._deletions.start(self._image)
        self._pending_removals.start(self._image)
        self._unregistrations.start(self._image)
        if gone:
            await self._client.submit(FinishMigrations(gone))
        for name in self._image.leftovers:
            self._report(RemoveLeftovers(name))
        self._reassignments.start(self._image)
        if self._balance is not None:
            self._balance.start()
        log.info(
            "became controller broker=%d epoch=%d topics=%d deletions=%d",
            self._broker_id,
            start.image.controller_epoch,
            len(self._image.topics),
            sum(record.state != REMOVED for record in self._image.deletions.values()),
        )

    async def stop(self) -> None:
        """Finish the current event, fail the queued events, and wait until the brokers have responded to all requests.
        """
        self._client.close()
        if self._loop is not None:
            self._writer.give_up()
        await self._brokers.stop()
        if self._balance is not None:
            await self._balance.stop()
        await self._reassignments.stop()
        await self._pending_removals.stop()
        await self._unregistrations.stop()
        await self._deletions.stop()
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        # Some tasks of this controller also wait for queued events. No event is taken from the queue any more.
        self._client.refuse_queued(KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is no longer the controller."))
        await self._outbox.close()
        # The tasks end by themselves: everything that they wait for has arrived or failed by now.
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change sent to brokers."""
        return self._image.controller_epoch, self._outbox.number

    # --- events -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            submission = await self._client.take()
            # A cancelled loop still finishes the decision that it has begun: a part of the decision may already be
            # durable.
            work = asyncio.ensure_future(self._serve(submission))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait([work])
                raise

    async def _serve(self, submission: Submission) -> None:
        """Decide one submission. The submitter gets an answer even if the decision function raises an unexpected
        exception."""
        try:
            decided = self._decided_before(submission)
            if decided is None:
                submission.require_time()
                many = has_many_elements(submission.event)
                authorized = await self._run_apart(
                    partial(authorize_event, self._image, submission, self._acls), many=many
                )
                granted = await self._within_quota(submission, authorized, many=many)
                event = granted.event
                if isinstance(event, ReplicasStopped | ReplicasRestored) and granted.refusal is None:
                    # Responses of brokers pass through this queue too, so the listeners observe a decision before the
                    # responses to its requests.
                    self._spawn(self._reply(submission, self._confirm_report(self._take_report(event))))
                    return
                if isinstance(event, QuorumEvent) and granted.refusal is None:
                    # The image is unchanged, so the controller continues with other events.
                    self._spawn(self._reply(submission, self._terms.handle_quorum_event(event)))
                    return
                topics = self._topics_to_fence(submission, granted)
                if topics:
                    self._spawn(self._fence_first(submission, topics))
                    return
                decided = await self._decide(submission, granted, many=many)
        except KafkaError as error:
            submission.fail(error)
        except Exception as problem:
            self._say_bug(submission, problem)
        else:
            self._spawn(self._answer(submission, decided))
        if submission.closed is not None:
            self._fences.reopen(self._image, submission.closed)

    def _decided_before(self, submission: Submission) -> DurableDecision | None:
        """Return the recorded outcome if this is a retry of a request that this or an earlier controller has decided.
        The brokers already have the change, or get it with the whole image."""
        outcomes, asked = self._outcomes, submission.asked
        if outcomes is None or asked is None:
            return None
        outcome = outcomes.find(submission.event, asked)
        if outcome is None:
            return None
        return self._completer.track(submission, outcomes.reply_of(submission.event, outcome), SentChange())

    async def _within_quota(self, submission: Submission, granted: AuthorizedEvent, *, many: bool) -> AuthorizedEvent:
        """Remove the items that exceed the client's mutation quota. The quota counts the event only once, before the
        controller fences topics for it."""
        event, caller = submission.event, submission.caller
        if caller is None or type(event) not in COSTS or granted.refusal is not None:
            return granted
        if submission.over_quota is None:
            submission.over_quota = {}
            if self._mutations.has_quota(caller):
                counted = await self._run_apart(
                    partial(count_mutations, self._image, granted, caller, self._mutations), many=many
                )
                submission.over_quota, submission.throttle_time_ms = counted
        return granted.without(ITEMS, submission.over_quota)

    def _topics_to_fence(self, submission: Submission, granted: AuthorizedEvent) -> Sequence[TopicImage]:
        closes = rule_of(submission.event).closes
        if closes is None or submission.closed is not None or granted.refusal is not None:
            return ()
        return closes(self._image, granted.event)

    async def _fence_first(self, submission: Submission, topics: Sequence[TopicImage]) -> None:
        """Fence the topics, then queue the submission again. The controller decides other events in the meantime."""
        submission.closed = await self._fences.close(self._image, topics)
        self._client.put_back(submission)

    async def _decide(self, submission: Submission, granted: AuthorizedEvent, *, many: bool) -> DurableDecision:
        before = self._image
        closed = () if submission.closed is None else (submission.closed.closed,)
        try:
            decision = await self._run_apart(partial(_decision, before, granted, *closed), many=many)
        except KafkaError:
            await self._while_in_office(self._writer.confirm(submission.decide_by))
            raise
        offset = -1
        if self._writer.changes_anything(decision):
            offset = await self._write(before, decision, submission)
        else:
            await self._while_in_office(self._writer.confirm(submission.decide_by))
        for sentence in decision.warnings:
            log.warning("%s", sentence)
        self._image, messages = await self._run_apart(
            partial(self._consequences, before, decision.delta, offset), many=many
        )
        if allows_more(before, self._image, decision.delta):
            self._report(ElectAnyLeaders())
        if self._acls is not None:
            self._acls.follow(before, decision.delta)
        self._deletions.observe(self._image, decision.delta)
        for name, left in decision.delta.leftovers.items():
            if left >= 0:
                self._report(RemoveLeftovers(name))
        self._reassignments.observe(decision.delta)
        self._pending_removals.observe(decision.delta)
        self._unregistrations.observe(decision.delta)
        if decision.delta.raised:
            log.warning(
                "the cluster uses topic ids now: inter.broker.protocol.version is 2.8 or later and cannot be "
                "lowered below 2.8 again"
            )
            self._report(FinishMigrations(self._migrations.settled(self._image)))
        return self._completer.track(submission, decision.reply, self._send(decision.delta, messages))

    def _consequences(self, before: ClusterImage, delta: ImageDelta, offset: int) -> tuple[ClusterImage, Messages]:
        """Return the image after a change, and the messages for the brokers. Pure.

        `offset`: the end of the metadata log; -1 with a metadata store, or for a decision without a change.
        """
        after = self._with_unclean_elections(before.apply(delta))
        if offset >= 0:
            after = msgspec.structs.replace(after, offset=offset)
        return after, self._outbox.messages_for(before, after, delta)

    async def _run_apart(self, work: Callable[[], R], *, many: bool) -> R:
        """Run pure work; in a large cluster, or for an event with many elements, in a thread."""
        topics = self._image.topics.values()
        large = many or len(topics) >= APART_MIN or sum(len(topic.partitions) for topic in topics) >= APART_MIN
        return await run_apart(work, large=large)

    def _with_unclean_elections(self, image: ClusterImage) -> ClusterImage:
        allowed = unclean_elections_of(image.broker_configs, self._broker_id, self._unclean)
        if allowed == image.unclean_elections:
            return image
        return msgspec.structs.replace(image, unclean_elections=allowed)

    async def _answer(self, submission: Submission, decided: DurableDecision) -> None:
        try:
            answer = await self._completer.answer(submission, decided)
            submission.answer(msgspec.structs.replace(answer, throttle_time_ms=submission.throttle_time_ms))
        except KafkaError as error:
            submission.fail(error)
        except Exception as problem:
            self._say_bug(submission, problem)

    def _take_report(self, event: ReplicasStopped | ReplicasRestored) -> KafkaError | None:
        """Process a report and return None. If the report belongs to an earlier broker epoch, return the refusal: the
        topic may have been undeleted and deleted again since, and a broker gets its unconfirmed requests again when it
        registers."""
        try:
            require_broker_epoch(self._image, event.broker_id, event.request.broker_epoch)
        except KafkaError as stale:
            return stale
        self._confirmations.answered(event.broker_id, event.request, event.response)
        return None

    async def _confirm_report(self, refusal: KafkaError | None) -> None:
        """Wait until a majority confirms that this broker is still the controller. If it is not, the next controller
        needs the report. Then raise the refusal, if there is one: the broker does not retry a refused report."""
        await self._while_in_office(self._writer.confirm())
        if refusal is not None:
            raise refusal

    async def _reply(self, submission: Submission, work: Awaitable[Any]) -> None:
        """Answer a submission with the result of work that makes no decision."""
        try:
            submission.answer(EventAnswer(await work, True))
        except KafkaError as error:
            submission.fail(error)
        except Exception as problem:
            self._say_bug(submission, problem)

    @staticmethod
    def _say_bug(submission: Submission, problem: Exception) -> None:
        name = type(submission.event).__name__
        log.error("controller event failed event=%s: this is a bug in pybroker", name, exc_info=problem)
        submission.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"internal error: {type(problem).__name__}"))

    async def _write(self, before: ClusterImage, decision: Decision, submission: Submission) -> int:
        outcomes, asked = self._outcomes, submission.asked
        kept = None
        if outcomes is not None and asked is not None:
            kept = outcomes.change_for(submission.event, asked, decision.reply)
        offset = await self._while_in_office(self._writer.write_decision(before, decision, kept, submission.decide_by))
        if outcomes is not None and kept is not None:
            outcomes.note_durable(kept)
        return offset

    async def _while_in_office(self, work: Coroutine[Any, Any, R]) -> R:
        """Await a write or a confirmation. End the term if another broker is the controller."""
        try:
            return await work
        except ResignedError as error:
            if self._client.is_open:
                self._client.close()
                log.error("another broker has become controller: %s", error.message)
            self.resigned.set()
            raise
        except FatalError as fatal:
            if self._outcomes is None:
                self._on_fatal(fatal)
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(fatal)) from fatal
            # Nothing was written. The next controller reads everything and decides again.
            if self._client.is_open:
                self._client.close()
                log.error(
                    "%s; this broker resigns as controller, and the next controller reads the metadata store again",
                    fatal,
                )
            self.overwritten = True
            self.resigned.set()
            raise ResignedError(str(fatal)) from fatal

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send(self, delta: ImageDelta, messages: Messages) -> ChangeDelivery:
        owed = OwedOrders(self._deletions.pending_of, self._pending_removals.pending_of)
        return self._outbox.send_change(self._image, delta, messages, owed)

    def _send_deletions_again(self, broker_id: int, ids: Sequence[Uuid]) -> None:
        self._outbox.send_deletions(self._image, broker_id, ids)

    def _send_departures_again(self, broker_id: int, topics: Sequence[Uuid]) -> None:
        self._outbox.send_pending_removals(self._image, broker_id, topics)

    def _send_whole(self, broker_id: int) -> None:
        self._outbox.send_whole(self._image, broker_id)

    def _report(self, event: Event[Any]) -> None:
        """Queue an event that a broker's response has caused."""
        if self._client.is_open:
            self._spawn(self._record(event))

    async def _record(self, event: Event[Any]) -> None:
        await self._recorded(type(event).__name__, self._client.submit(event))

    @staticmethod
    async def _recorded(what: str, answer: Awaitable[Any]) -> None:
        try:
            await answer
        except KafkaError as error:
            log.error("cannot record the answers of brokers event=%s: %s", what, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _decision(image: ClusterImage, granted: AuthorizedEvent, *closed: FencedTopics) -> Decision:
    """Decide the authorized part of an event. The reply covers the whole event. Raises KafkaError if the decision
    refuses the event. Pure."""
    if granted.refusal is not None:
        raise granted.refusal
    decision = rule_of(granted.event).decide(image, granted.event, *closed)
    return (
        msgspec.structs.replace(decision, reply=granted.complete_reply(decision.reply)) if granted.refused else decision
    )
