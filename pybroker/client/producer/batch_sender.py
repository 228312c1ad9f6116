"""The producer's sender: takes batches from the queues, sends them, and handles the responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pybroker.client.client_errors import (
    BrokerConnectionError,
    KafkaError,
    TopicRecreatedError,
    UnknownHostError,
    broker_error,
    is_retriable,
)
from pybroker.client.cluster_metadata import TopicInfo
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.client_metadata import TopicRecreation
from pybroker.client.connection.network import LOST, Network
from pybroker.client.connection.wake_loop import WakeLoop
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.producer.accumulator import Batch, PartitionQueue, TopicQueues
from pybroker.client.producer.batch_completion import BatchCompletion
from pybroker.client.producer.produce_request import answer_rows, produce_request, version_for
from pybroker.client.producer.producer_id import ProducerId
from pybroker.client.producer.producer_transaction import Transaction, in_transaction
from pybroker.client.producer.topic_watch import TopicWatch
from pybroker.client.producer.wait_warning import WaitWarning
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_COMPRESS_ELSEWHERE_BYTES = 32 << 10
"""Minimum size in bytes of batches that are compressed in a thread, to keep the loop free."""


class _Lane:
    """The requests to one broker, built and sent in the order in which they were chosen."""

    __slots__ = ("connecting", "in_flight", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.in_flight = 0
        self.connecting: asyncio.Task[None] | None = None


class BatchSender:
    """Runs until `close`. All methods run on its loop."""

    def __init__(
        self,
        config: ClientConfig,
        network: Network,
        topics: dict[str, TopicQueues],
        metrics: ClientMetrics,
        on_done: Callable[[Batch, Exception | None], None],
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """transaction: the producer's transactions; None for a producer without transactions."""
        self.loop = asyncio.get_running_loop()
        self._config = config
        self._network = network
        self._topics = topics
        self._metrics = metrics
        self._acks: int = config["acks"]
        self._idempotent: bool = config["enable.idempotence"] and self._acks == -1
        self._in_flight_max: int = config["max.in.flight.requests.per.connection"]
        self._request_bytes_max: int = config["max.request.size"]
        self._compresses = config["compression.type"] != "none"
        self._moves: bool = config["on.topic.recreated"] == "continue"
        self._busy: dict[PartitionQueue, None] = {}
        self._lanes: dict[int, _Lane] = {}
        self._backoff = Backoff(config.seconds("retry.backoff.ms"), config.seconds("retry.backoff.max.ms"))
        self._transaction = transaction
        self._producer: ProducerId | Transaction = ProducerId(network) if transaction is None else transaction
        self._numbering: asyncio.Task[None] | None = None
        self.overdue = network.overdue
        self._closed = False
        self._flushing = 0
        self._crowded = 0
        network.metadata.on_recreated(self._recreated)
        self._background = WakeLoop(self._dispatch, "The producer's sender")
        if transaction is not None:
            transaction.serve(self._background)
        self._watch = TopicWatch(
            network,
            self._background,
            self._backoff,
            age_max_s=config.seconds("metadata.max.age.ms"),
            wanted=lambda: set(topics) | {where.where.topic for where in self._busy},
            found=self._found,
            gone=self._gone,
        )
        self._wait_warning = WaitWarning(config, network)
        self.outcomes = BatchCompletion(
            config,
            metrics,
            on_done,
            settled=self._wait_warning.settled,
            idempotent=self._idempotent,
            backoff=self._backoff,
            new_epoch=self._new_epoch,
            look_again=self._watch.refresh,
            overdue=network.overdue,
        )

    # What the producer calls --------------------------------------------------------------------------------

    def queues(self, topic: TopicInfo) -> TopicQueues:
        """Return the queues of an existing topic."""
        found = self._topics.get(topic.name)
        if found is not None and not (found.topic_id and topic.topic_id):
            # Only a broker without topic ids sends a zero id, so a zero id does not prove that the topic is another
            # incarnation. Continue the sequences: if they began at 0 again, the broker would take batches for
            # duplicates.
            found.topic_id = found.topic_id or topic.topic_id
        if found is None or (topic.topic_id and found.topic_id != topic.topic_id):
            if found is not None:
                self._recreated(TopicRecreation(topic.name, found.topic_id, topic.topic_id))
            found = self._topics[topic.name] = TopicQueues(topic.name, topic.topic_id, len(topic.partitions))
        elif len(topic.partitions) > len(found.partitions):
            found.grow(len(topic.partitions))
        self._watch.exists(topic.name)
        return found

    def has_work(self, where: PartitionQueue) -> None:
        """Note that there is a new batch. Raises RuntimeError if the sender is closed."""
        if self._closed:
            raise RuntimeError("the producer is closed")
        self._busy[where] = None
        self._background.wake()

    def wake(self) -> None:
        """Look for batches that can be sent, because a condition has changed."""
        self._background.wake()

    async def room(self, limit: int, size: int) -> None:
        """Wait until `size` bytes fit into the buffer, or the buffer is empty."""
        self._background.wake()
        self._crowded += 1  # While a caller waits for buffer space, no batch lingers.
        try:
            while self.outcomes.buffered and self.outcomes.buffered + size > limit:
                await self.outcomes.next_end()
        finally:
            self._crowded -= 1

    async def flush(self) -> None:
        """Wait until all current batches are acknowledged. Raises the first failure that no caller has read."""
        self._flushing += 1
        self._background.wake()
        try:
            waiting = [batch for where in self._busy for batch in [*where.in_flight, *where.unsent()]]
            while waiting:
                await asyncio.wait([batch.done for batch in waiting])
                waiting = [half for batch in waiting for half in batch.halves or ()]
        finally:
            self._flushing -= 1
        self.raise_unseen()

    def raise_unseen(self) -> None:
        """Raise the first failure that no caller has read."""
        self.outcomes.raise_unseen()

    def abandon(self, error: Exception) -> int:
        """Fail all remaining batches; return the number of records."""
        count = 0
        for where in list(self._busy):
            for batch in [*where.in_flight, *where.unsent()]:
                count += len(batch)
                self.outcomes.fail(where, batch, error)
        return count

    async def give_up(self, error: Exception) -> None:
        """Fail all batches that are not in flight. Return when the batches in flight are acknowledged."""
        for where in list(self._busy):
            self.outcomes.fail_unsent(where, error)
        on_their_way = [batch.done for where in self._busy for batch in where.in_flight]
        if on_their_way:
            await asyncio.wait(on_their_way)

    async def close(self) -> None:
        """Stop immediately. Fail the remaining batches: batches that arrived late, and batches whose waiting caller was
        cancelled."""
        self._closed = True
        self.abandon(self._network.overdue("the producer was closed before the record was written"))
        await self._background.close()

    # The loop -----------------------------------------------------------------------------------------------

    def _dispatch(self) -> float | None:
        """Send all batches that can be sent now. Return the seconds until the next batch is due."""
        now = self.loop.time()
        next_time = now + 3600.0
        full = self._crowded > 0 or self.outcomes.buffered >= self._config["buffer.memory"] * 0.9
        groups: dict[int, list[tuple[PartitionQueue, Batch]]] = {}
        sizes: dict[int, int] = {}
        self._watch.refresh_if_old(now)
        for where in list(self._busy):
            if where.is_empty:
                del self._busy[where]
                continue
            next_time = min(next_time, self.outcomes.expire(where, now))
            if not where.is_empty:
                next_time = min(next_time, self._wait_warning.check(where, now))
            self._check_identity(where)
            batch, ready_at = self._candidate(where, now, full)
            if batch is None or ready_at > now:
                next_time = min(next_time, ready_at)
                continue
            if self._waits(where):
                continue
            producer = self._producer.current
            node = self._leader(where)
            if node is None:
                where.not_before = now + 0.02
                next_time = min(next_time, where.not_before)
                self._watch.refresh()
                continue
            lane = self._lanes.get(node)
            if lane is None:
                lane = self._lanes[node] = _Lane()
            if self._network.ready(node) is None:
                self._connect(node, lane)
                continue
            group = groups.setdefault(node, [])
            size = sizes.get(node, 0)
            if lane.in_flight >= self._in_flight_max or (group and size + batch.bytes > self._request_bytes_max):
                continue
            if self._idempotent and producer is not None and not where.number(batch, producer):
                continue
            self._take(where, batch)
            self._busy[where] = self._busy.pop(where)  # Next time, begin with the other partitions.
            group.append((where, batch))
            sizes[node] = size + batch.bytes
        for node, group in groups.items():
            if group:
                self._lanes[node].in_flight += 1
                self._background.spawn(self._send(node, group))
        if any(group for group in groups.values()):
            return 0.0  # The partition may have another batch that can be sent.
        return max(0.0, next_time - self.loop.time())

    def _waits(self, where: PartitionQueue) -> bool:
        """Return whether the partition must wait, for a producer id or until it is part of the transaction."""
        if self._transaction is not None:
            return not self._transaction.takes(where.where)
        if self._idempotent and self._producer.current is None:
            self._number()
            return True
        return False

    def _candidate(self, where: PartitionQueue, now: float, full: bool) -> tuple[Batch | None, float]:
        """Return the batch to send next, and the loop time from which it may be sent."""
        if where.retries or where.reset:
            # Send retries one at a time, to keep the order.
            if where.in_flight or not where.unsent():
                return None, now + 3600.0
            return where.unsent()[0], where.not_before
        if not where.queue or len(where.in_flight) >= self._in_flight_max:
            return None, now + 3600.0
        if self._idempotent and where.in_flight and where.known_as != where.producer:
            # If Apache Kafka's leader does not know a producer, it accepts any first sequence (KAFKA-15591). If the
            # leader refused the first batch because it was not ready, it would then write the second batch before the
            # first.
            return None, now + 3600.0
        batch = where.queue[0]
        if not len(batch.data):
            return None, now + 3600.0
        at_once = batch.closed or len(where.queue) > 1 or self._flushing or full
        if not at_once and batch.awaited:
            # A caller waits, so lingering would only delay it. If a request is in flight, lingering costs no time.
            lane = self._lanes.get(self._network.cluster.leader_id(where.where))
            at_once = lane is None or not lane.in_flight
        return batch, max(where.not_before, now if at_once else batch.linger_end)

    def _take(self, where: PartitionQueue, batch: Batch) -> None:
        if where.retries:
            where.retries.remove(batch)
        else:
            where.queue.popleft()
        batch.closed = True
        where.in_flight.append(batch)

    def _leader(self, where: PartitionQueue) -> int | None:
        cluster = self._network.cluster
        info = cluster.partition(where.where)
        if info is None or cluster.node(info.leader) is None:
            return None
        return info.leader

    # One request --------------------------------------------------------------------------------------------

    async def _send(self, node: int, group: list[tuple[PartitionQueue, Batch]]) -> None:
        lane = self._lanes[node]
        try:
            async with lane.lock:
                for _, batch in group:
                    await self._build(batch)
                connection = self._network.ready(node)
                if connection is None:
                    raise BrokerConnectionError(f"the connection to broker {node} was lost")
                batches = [batch for _, batch in group]
                own = self._transaction
                whose = None if own is None else own.transactional_id
                version = version_for(
                    batches,
                    connection.highest(m.ProduceRequest),
                    transactions_1=own is not None and not own.version_2,
                )
                request = produce_request(
                    batches,
                    version,
                    acks=self._acks,
                    timeout_ms=self._config["request.timeout.ms"],
                    transactional_id=whose,
                )
                self._metrics.add("request-total")
                await connection.drain()
                if self._acks == 0:
                    connection.send_without_response(request, version)
                    answer = None
                else:
                    answer = connection.start(request, version)
            if answer is None:
                for where, batch in group:
                    self.outcomes.written(where, batch, -1, -1)
            else:
                self._judge(group, await connection.answer_to(request, answer), version)
        except (*LOST, KafkaError) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
            for where, batch in group:
                if batch in where.in_flight:
                    self.outcomes.failed(where, batch, code, error)
            self._watch.refresh()
        except Exception as error:
            for where, batch in group:
                self.outcomes.fail(where, batch, error)
            raise
        finally:
            lane.in_flight -= 1
            self._background.wake()

    async def _build(self, batch: Batch) -> None:
        if batch.wire is not None:
            return
        producer_id, epoch = batch.producer or (-1, -1)
        if self._compresses and batch.data.size_bytes >= _COMPRESS_ELSEWHERE_BYTES:
            build = batch.data.build
            batch.wire = await self.loop.run_in_executor(None, build, producer_id, epoch, batch.sequence)
        else:
            batch.wire = batch.data.build(producer_id, epoch, batch.sequence)
        if self._transaction is not None:
            batch.wire = in_transaction(batch.wire)

    def _judge(self, group: list[tuple[PartitionQueue, Batch]], answer: Any, version: int) -> None:
        rows = answer_rows([batch for _, batch in group], answer, version)
        for (where, batch), row in zip(group, rows, strict=True):
            if batch not in where.in_flight:
                continue
            if row is None:
                error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response does not contain {where.where}")
                self.outcomes.failed(where, batch, error.code, error)
            elif row.error_code == ErrorCode.NONE:
                self.outcomes.written(where, batch, row.base_offset, row.log_append_time_ms)
            elif row.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self.outcomes.written(where, batch, -1, -1)
            else:
                text = row.error_message
                if row.record_errors:
                    text = row.record_errors[0].batch_index_error_message or text
                error = broker_error(row.error_code, text, about=f"record for {where.where}")
                if self._transaction is not None:
                    error = self._transaction.refusal(error)
                self.outcomes.failed(where, batch, row.error_code, error)

    # Identity -----------------------------------------------------------------------------------------------

    def _recreated(self, change: TopicRecreation) -> None:
        """Do not send the old incarnation's records to the new incarnation; fail them, unless the user allows it."""
        old = self._topics.get(change.topic)
        if old is None or old.topic_id == change.new:
            return
        log.info("Topic %s was deleted and created again: id %s, was %s", change.topic, change.new, old.topic_id)
        error = TopicRecreatedError(change.topic, old.topic_id, change.new)
        self._forget(change.topic)
        for where in old.partitions:
            # If the user allows it, `_check_identity` moves the records when the partitions of the new topic are known.
            if not self._moves:
                self.outcomes.fail_unsent(where, error)
                where.reset = False
        self._background.wake()

    def _forget(self, name: str) -> TopicQueues | None:
        """Drop the queues of a topic name. The name's next queues start at sequence 0, and need another producer epoch.
        With the same epoch, the broker would take their first batches for duplicates if the topic comes back unchanged
        (it was undeleted, or access was restored).
        """
        queues = self._topics.pop(name, None)
        producer = self._producer.current
        if producer is not None and any(where.producer == producer for where in (queues.partitions if queues else ())):
            self._producer.next_epoch()
        return queues

    def _check_identity(self, where: PartitionQueue) -> None:
        """Handle batches that come back from the broker after the topic was recreated: fail or move them. Never send
        them again by name.
        """
        if self._transaction is not None and self._transaction.failure is not None:
            # The transaction can no longer commit.
            self.outcomes.fail_unsent(where, self._transaction.failure)
            return
        old, new = where.topic.topic_id, self._network.cluster.topic_id(where.where.topic)
        if not old or not new or old == new or self._topics.get(where.where.topic) is where.topic:
            return
        error = TopicRecreatedError(where.where.topic, old, new)
        unsent = where.unsent()
        queues = self._topics.get(where.where.topic)
        if self._moves and unsent and (queues is None or queues.topic_id != new):
            queues = self.queues(self._network.cluster.by_name[where.where.topic])
        for batch in unsent:
            if self._moves and queues is not None and batch.partition < len(queues.partitions):
                self._move(where, queues.partitions[batch.partition], batch)
            else:
                self.outcomes.fail(where, batch, error)
        where.reset = False

    def _move(self, where: PartitionQueue, to: PartitionQueue, batch: Batch) -> None:
        (where.retries if batch in where.retries else where.queue).remove(batch)
        batch.topic_id, batch.producer, batch.sequence, batch.wire = to.topic.topic_id, None, -1, None
        batch.closed = True
        to.queue.append(batch)
        self.has_work(to)

    def _new_epoch(self, where: PartitionQueue) -> None:
        """Restart a partition's sequence under the next epoch, because it has a gap (KIP-360)."""
        producer = self._producer.current
        if producer is None or where.reset:
            return
        if where.producer in (None, producer):
            self._producer.next_epoch()
        where.reset = True

    def _number(self) -> None:
        """Start a request for a producer id."""
        if self._numbering is None or self._numbering.done():
            self._numbering = self._background.spawn(self._obtain_producer_id())

    async def _obtain_producer_id(self) -> None:
        try:
            await self._producer.obtain()
        except (*LOST, KafkaError) as error:
            if isinstance(error, KafkaError) and not is_retriable(error.code):
                for where in list(self._busy):
                    self.outcomes.fail_unsent(where, error)
            else:
                log.warning("Producer id request failed: %s", error)
                await asyncio.sleep(self._backoff.next())
        self._background.wake()

    # Connections and topics ---------------------------------------------------------------------------------

    def _connect(self, node: int, lane: _Lane) -> None:
        if lane.connecting is None or lane.connecting.done():
            lane.connecting = self._background.spawn(self._open(node))

    async def _open(self, node: int) -> None:
        try:
            await self._network.connection(node)
        except UnknownHostError as error:
            # New metadata may contain other brokers.
            cluster = self._network.cluster
            for where in list(self._busy):
                if cluster.leader_id(where.where) == node:
                    self.outcomes.fail_unsent(where, error)
        except KafkaError as error:
            if is_retriable(error.code):
                self._watch.refresh()
            else:  # The login failed: a retry does not help.
                for where in list(self._busy):
                    self.outcomes.fail_unsent(where, error)
        except LOST as error:
            log.info("Broker %s does not respond: %s", node, error)
            self._watch.refresh()
            await asyncio.sleep(self._backoff.next())
        self._background.wake()

    def _found(self, topic: TopicInfo) -> None:
        if topic.name in self._topics:
            self.queues(topic)

    def _gone(self, name: str, error: KafkaError) -> None:
        """Drop a topic that was deleted or that the user may not write to."""
        queues = self._forget(name)
        left = [where for where in self._busy if where.where.topic == name]
        for where in dict.fromkeys([*(queues.partitions if queues is not None else ()), *left]):
            self.outcomes.fail_unsent(where, error)
