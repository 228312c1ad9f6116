"""The clients for programs without asyncio: the same classes and methods, which wait.

    from pybroker.client.blocking import AdminClient, Consumer, Producer

    with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
        producer.send("words", "hello")

One background thread runs the event loop of all of them. They may be used from any thread, a Consumer from one at a
time. `producer.send_many` is the fast way for rows: `send` and `enqueue` change threads for each record.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from re import Pattern
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from pybroker.client.admin import client as admin
from pybroker.client.admin import results
from pybroker.client.cluster import Cluster, TopicPartition
from pybroker.client.consumer import consumer
from pybroker.client.consumer.group.member import GroupMetadata
from pybroker.client.consumer.group.rebalances import RebalanceListener
from pybroker.client.plugins.metrics import ClientMetrics
from pybroker.client.producer import delivery, producer
from pybroker.client.records import RecordMetadata
from pybroker.native import ConsumerRecord, Uuid

Given = ParamSpec("Given")
Result = TypeVar("Result")
Key = TypeVar("Key")
Value = TypeVar("Value")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop that serves all blocking clients of this process; its thread is a daemon."""
    global _loop, _thread  # noqa: PLW0603 - one for the process, made when it is first needed
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="pybroker-client", daemon=True)
            _thread.start()
        return _loop


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine on the loop and waits for it. An interrupt (Ctrl-C) cancels it."""
    target = loop()
    if threading.current_thread() is _thread:
        work.close()
        raise RuntimeError("a blocking client was called inside the loop that serves it: use pybroker.client there")
    future = asyncio.run_coroutine_threadsafe(work, target)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def waiting(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """The blocking form of an asynchronous method."""

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Result:
        return run(method(self._inner, *args, **named))

    return call


def direct(method: Callable[Concatenate[Any, Given], Result]) -> Callable[Concatenate[Any, Given], Result]:
    """A method that does not wait for anything, run on the loop's thread."""

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Result:
        async def there() -> Result:
            return method(self._inner, *args, **named)

        return run(there())

    return call


class KeyedResult(Generic[Key, Value]):
    """The results for several items, all complete."""

    def __init__(self, inner: results.KeyedResult[Key, Value]) -> None:
        self._inner = inner

    def values(self) -> Mapping[Key, asyncio.Future[Value]]:
        """Item → finished future: `result()` gives the value or raises, `exception()` gives the failure or None."""
        return self._inner.values()

    def all(self) -> dict[Key, Value]:
        """Item → value; raises the first failure."""
        return {key: future.result() for key, future in self._inner.values().items()}


class CreateTopicsResult(KeyedResult[str, results.TopicMetadataAndConfig]):
    """As `pybroker.client.CreateTopicsResult`."""

    topic_id = waiting(results.CreateTopicsResult.topic_id)
    num_partitions = waiting(results.CreateTopicsResult.num_partitions)
    replication_factor = waiting(results.CreateTopicsResult.replication_factor)
    config = waiting(results.CreateTopicsResult.config)


class DescribeTopicsResult:
    """As `pybroker.client.DescribeTopicsResult`."""

    def __init__(self, inner: results.DescribeTopicsResult) -> None:
        self._inner = inner
        self.topic_id_values = inner.topic_id_values
        self.topic_name_values = inner.topic_name_values
        self.values = inner.values

    all_topic_ids = waiting(results.DescribeTopicsResult.all_topic_ids)
    all_topic_names = waiting(results.DescribeTopicsResult.all_topic_names)

    def all(self) -> dict[str, Any]:
        """Deprecated: `all_topic_names`."""
        results.deprecated("all()", "all_topic_names()")
        return self.all_topic_names()


class DeleteTopicsResult:
    """As `pybroker.client.DeleteTopicsResult`."""

    def __init__(self, inner: results.DeleteTopicsResult) -> None:
        self._inner = inner
        self.topic_id_values = inner.topic_id_values
        self.topic_name_values = inner.topic_name_values
        self.values = inner.values

    all = waiting(results.DeleteTopicsResult.all)


Inner = TypeVar("Inner")
Outer = TypeVar("Outer")


def answered(
    method: Callable[Concatenate[Any, Given], Inner], wrap: Callable[[Inner], Outer]
) -> Callable[Concatenate[Any, Given], Outer]:
    """A method about several items: returns when all of them are answered, and raises the first failure unless the
    client was made with `raise_errors=False`.
    """

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Outer:
        async def there() -> Inner:
            result = method(self._inner, *args, **named)
            futures = result.futures()  # type: ignore[attr-defined]  # every result of several items has it
            if futures:
                await asyncio.wait(futures)
            if self.raise_errors:
                for future in futures:
                    future.result()
            return result

        return wrap(run(there()))

    return call


class _Closing:
    """What all blocking clients have."""

    _inner: Any

    @property
    def cluster(self) -> Cluster:
        """What is known of the cluster so far."""
        cluster: Cluster = self._inner.cluster
        return cluster

    def close(self) -> None:
        """Closes the client and its connections."""
        run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._inner.__aexit__(kind, problem, traceback))


async def _made(kind: Callable[[Mapping[str, Any]], Result], config: Mapping[str, Any]) -> Result:
    return kind(config)


class AdminClient(_Closing):
    """The blocking `pybroker.client.AdminClient`. raise_errors: whether calls about several items raise the first
    failure; otherwise the futures of the result hold the failures.
    """

    def __init__(self, config: Mapping[str, Any], *, raise_errors: bool = True) -> None:
        self._inner = run(_made(admin.AdminClient, config))
        self.raise_errors = raise_errors

    send = waiting(admin.AdminClient.send)
    describe_cluster = waiting(admin.AdminClient.describe_cluster)
    create_topics = answered(admin.AdminClient.create_topics, CreateTopicsResult)
    delete_topics = answered(admin.AdminClient.delete_topics, DeleteTopicsResult)
    describe_topics = answered(admin.AdminClient.describe_topics, DescribeTopicsResult)
    list_topics = waiting(admin.AdminClient.list_topics)
    create_partitions = answered(admin.AdminClient.create_partitions, KeyedResult)
    describe_configs = answered(admin.AdminClient.describe_configs, KeyedResult)
    incremental_alter_configs = answered(admin.AdminClient.incremental_alter_configs, KeyedResult)
    describe_log_dirs = waiting(admin.AdminClient.describe_log_dirs)
    alter_replica_log_dirs = answered(admin.AdminClient.alter_replica_log_dirs, KeyedResult)
    list_offsets = answered(admin.AdminClient.list_offsets, KeyedResult)
    delete_records = answered(admin.AdminClient.delete_records, KeyedResult)
    list_groups = waiting(admin.AdminClient.list_groups)
    describe_groups = answered(admin.AdminClient.describe_groups, KeyedResult)
    delete_groups = answered(admin.AdminClient.delete_groups, KeyedResult)
    list_consumer_group_offsets = waiting(admin.AdminClient.list_consumer_group_offsets)
    alter_consumer_group_offsets = answered(admin.AdminClient.alter_consumer_group_offsets, KeyedResult)
    delete_consumer_group_offsets = answered(admin.AdminClient.delete_consumer_group_offsets, KeyedResult)
    create_acls = answered(admin.AdminClient.create_acls, KeyedResult)
    describe_acls = waiting(admin.AdminClient.describe_acls)
    delete_acls = answered(admin.AdminClient.delete_acls, KeyedResult)
    describe_user_scram_credentials = waiting(admin.AdminClient.describe_user_scram_credentials)
    alter_user_scram_credentials = answered(admin.AdminClient.alter_user_scram_credentials, KeyedResult)


class Delivery:
    """A record that was handed over."""

    def __init__(self, inner: delivery.Delivery) -> None:
        self._inner = inner

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._inner.done()

    def result(self) -> RecordMetadata:
        """Waits for the outcome and gives the record's metadata. Raises the error."""

        async def there() -> RecordMetadata:
            return await self._inner

        return run(there())


class Producer(_Closing):
    """The blocking `pybroker.client.Producer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._inner = run(_made(producer.Producer, config))

    start = waiting(producer.Producer.start)
    send = waiting(producer.Producer.send)
    send_many = waiting(producer.Producer.send_many)
    flush = waiting(producer.Producer.flush)
    partitions_for = waiting(producer.Producer.partitions_for)
    _enqueue = waiting(producer.Producer.enqueue)

    def enqueue(self, *args: Any, **named: Any) -> Delivery:
        """As `pybroker.client.Producer.enqueue`: waits only for room in the buffer."""
        return Delivery(self._enqueue(*args, **named))

    def metrics(self) -> ClientMetrics:
        """This producer's metrics."""
        metrics: ClientMetrics = self._inner.metrics()
        return metrics


class Consumer(_Closing):
    """The blocking `pybroker.client.Consumer`. Iterate over it for one record after the other."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._client = run(_made(consumer.Consumer, config))
        # What iteration took ahead, the next record last, and the record that the caller has now.
        self._ahead: list[ConsumerRecord] = []
        self._current: ConsumerRecord | None = None

    @property
    def _inner(self) -> consumer.Consumer:
        """The asynchronous one, back where the caller is: what iteration took ahead is given back."""
        if self._current is not None:
            current, self._current = self._current, None
            ahead, self._ahead = self._ahead, []
            first: dict[TopicPartition, int] = {}
            for record in reversed(ahead):
                first.setdefault(TopicPartition(record.topic, record.partition), record.offset)

            async def back() -> None:
                for where, offset in first.items():
                    if where in self._client.assignment():
                        self._client.seek(where, offset)
                self._client.handed_out(current)

            run(back())
        return self._client

    start = waiting(consumer.Consumer.start)
    assign = direct(consumer.Consumer.assign)
    unsubscribe = waiting(consumer.Consumer.unsubscribe)
    poll = waiting(consumer.Consumer.poll)
    getmany = waiting(consumer.Consumer.getmany)
    seek = direct(consumer.Consumer.seek)
    seek_to_beginning = direct(consumer.Consumer.seek_to_beginning)
    seek_to_end = direct(consumer.Consumer.seek_to_end)
    position = waiting(consumer.Consumer.position)
    pause = direct(consumer.Consumer.pause)
    resume = direct(consumer.Consumer.resume)
    commit = waiting(consumer.Consumer.commit)
    committed = waiting(consumer.Consumer.committed)
    beginning_offsets = waiting(consumer.Consumer.beginning_offsets)
    end_offsets = waiting(consumer.Consumer.end_offsets)
    offsets_for_times = waiting(consumer.Consumer.offsets_for_times)
    partitions_for = waiting(consumer.Consumer.partitions_for)

    def subscribe(
        self, topics: Iterable[str] | Pattern[str] | str, *, listener: RebalanceListener | None = None
    ) -> None:
        """As `pybroker.client.Consumer.subscribe`. The listener runs on a thread of its own and may call this
        consumer, except for polling.
        """
        wrapped = None if listener is None else _Elsewhere(listener)

        async def there() -> None:
            self._client.subscribe(topics, listener=wrapped)

        run(there())

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned to this consumer."""
        return self._client.assignment()

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        return self._client.subscription()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._client.paused()

    def lag(self, partition: TopicPartition) -> int | None:
        """As `pybroker.client.Consumer.lag`."""
        return self._inner.lag(partition)

    def group_metadata(self) -> GroupMetadata | None:
        """This consumer's identity in its group."""
        return self._client.group_metadata()

    def metrics(self) -> ClientMetrics:
        """This consumer's metrics."""
        return self._client.metrics()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            # Several at once, because each change of threads costs more than a record. They are kept in the order in
            # which they are given, the next one last.
            while not self._ahead:
                self._current = None  # finished with
                self._ahead = list(reversed(run(self._client.poll(1.0))))
            self._current = self._ahead.pop()
            yield self._current


class _Elsewhere(RebalanceListener):
    """Runs a listener on another thread, so that it may call blocking methods."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_lost, partitions)

    async def on_topic_recreated(self, topic: str, old: Uuid, new: Uuid) -> None:
        await asyncio.to_thread(self._listener.on_topic_recreated, topic, old, new)


__all__ = ["AdminClient", "Consumer", "Delivery", "Producer", "loop", "run"]
