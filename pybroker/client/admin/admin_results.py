"""Results of calls about several items. A result has a future for each item; awaiting the result waits for all items.

result = admin.create_topics([NewTopic("a"), NewTopic("b")])
await result                       # all items, or the first failure
await result.topic_id("a")         # one item
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from pybroker.client.admin.config_types import ConfigEntry
from pybroker.client.admin.topic_types import TopicDescription
from pybroker.client.client_errors import KafkaError, UnknownTopicError, UnsupportedVersionError, broker_error
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

Key = TypeVar("Key")
Value = TypeVar("Value")
Futures = dict[Key, "asyncio.Future[Value]"]
_running: set[asyncio.Task[None]] = set()


def start(keys: Iterable[Key], work: Callable[[Futures[Key, Value]], Coroutine[Any, Any, None]]) -> Futures[Key, Value]:
    """Create a future for each key and start `work`, which settles the futures. If a future is still open when `work`
    ends, it fails.
    """
    loop = asyncio.get_running_loop()
    futures: Futures[Key, Value] = {key: loop.create_future() for key in keys}
    for future in futures.values():
        # Marks the exception as retrieved: asyncio must not warn about a future that the caller ignores.
        future.add_done_callback(lambda each: each.cancelled() or each.exception())

    async def run() -> None:
        failure: BaseException = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's response does not contain it")
        try:
            await work(futures)
        except Exception as error:
            failure = error
        finally:
            for future in futures.values():
                if not future.done():
                    future.set_exception(failure)

    task = asyncio.create_task(run())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return futures


def settle(future: asyncio.Future[Value], error_code: int, message: str | None, value: Value, about: str) -> None:
    """Complete one item's future. about: the item's name for the error message."""
    if future.done():
        return
    if error_code:
        future.set_exception(_refusal(error_code, message, about))
    else:
        future.set_result(value)


def _refusal(code: int, message: str | None, about: str) -> KafkaError:
    """Return the error of an item. Its message contains the item's name, because the broker's message may not."""
    words = message or about
    if about.rpartition(" ")[2] not in words:
        words = f"{about}: {words}"
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
        return UnknownTopicError(code, words)
    return broker_error(code, words)


class KeyedResult(Generic[Key, Value]):
    """Key → future. Awaiting it waits for all items, then returns key → value or raises the first failure."""

    def __init__(self, futures: Futures[Key, Value]) -> None:
        self._futures = futures

    def values(self) -> Mapping[Key, asyncio.Future[Value]]:
        """Return key → future."""
        return dict(self._futures)

    def futures(self) -> list[asyncio.Future[Value]]:
        """Return the futures of all items."""
        return list(self._futures.values())

    async def all(self) -> dict[Key, Value]:
        """Wait for all items and return key → value, or raise the first failure."""
        return await gather(self._futures)

    def __await__(self) -> Generator[Any, None, dict[Key, Value]]:
        return self.all().__await__()


async def gather(futures: Futures[Key, Value]) -> dict[Key, Value]:
    """Wait for all futures, then return the values or raise the first failure."""
    if futures:
        await asyncio.wait(futures.values())
    return {key: future.result() for key, future in futures.items()}


@dataclass(frozen=True, slots=True)
class TopicMetadataAndConfig:
    """A created topic. num_partitions, replication_factor: -1, config: None if the broker does not report them."""

    topic_id: Uuid
    num_partitions: int
    replication_factor: int
    config: Mapping[str, ConfigEntry] | None


class CreateTopicsResult(KeyedResult[str, TopicMetadataAndConfig]):
    """Results by topic name. Awaiting it returns name → TopicMetadataAndConfig, or raises the first failure."""

    async def topic_id(self, topic: str) -> Uuid:
        """Return the new topic's id; Uuid.ZERO from a broker without topic ids. Raises the error if the creation
        failed.
        """
        return (await self._futures[topic]).topic_id

    async def num_partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises UnsupportedVersionError if the broker did not report it."""
        return _said((await self._futures[topic]).num_partitions)

    async def replication_factor(self, topic: str) -> int:
        """Return the replicas per partition. Raises UnsupportedVersionError if the broker did not report it."""
        return _said((await self._futures[topic]).replication_factor)

    async def config(self, topic: str) -> Mapping[str, ConfigEntry]:
        """Return the topic's settings. Raises KafkaError if the caller may not see them."""
        config = (await self._futures[topic]).config
        if config is None:
            raise UnsupportedVersionError("the broker does not return the settings of new topics")
        return config


def _said(number: int) -> int:
    if number < 0:
        raise UnsupportedVersionError("the broker does not return partition and replica counts of new topics")
    return number


class _ByIdOrName(Generic[Value]):
    """Futures by topic id if the request used ids, or by name if it used names.

    Create it with `of_topic_ids` or `of_topic_names`. The constructor is for subclasses such as test doubles (KIP-516).
    """

    def __init__(
        self,
        topic_id_futures: Futures[Uuid, Value] | None,
        topic_name_futures: Futures[str, Value] | None,
    ) -> None:
        if type(self).__module__ == __name__:
            raise TypeError(f"use {type(self).__name__}.of_topic_ids or {type(self).__name__}.of_topic_names")
        self._take(topic_id_futures, topic_name_futures)

    def _take(
        self, topic_id_futures: Futures[Uuid, Value] | None, topic_name_futures: Futures[str, Value] | None
    ) -> None:
        if (topic_id_futures is None) == (topic_name_futures is None):
            raise ValueError("pass futures either by id or by name")
        self._by_id, self._by_name = topic_id_futures, topic_name_futures

    @classmethod
    def of_topic_ids(cls, futures: Futures[Uuid, Value]) -> Self:
        """Create the result of a request that used ids."""
        made = cls.__new__(cls)
        made._take(futures, None)
        return made

    @classmethod
    def of_topic_names(cls, futures: Futures[str, Value]) -> Self:
        """Create the result of a request that used names."""
        made = cls.__new__(cls)
        made._take(None, futures)
        return made

    @property
    def _futures(self) -> Futures[Any, Value]:
        # The caller has set exactly one of the two.
        return self._by_name if self._by_id is None else self._by_id  # type: ignore[return-value]

    def futures(self) -> list[asyncio.Future[Value]]:
        """Return all futures."""
        return list(self._futures.values())

    def topic_id_values(self) -> dict[Uuid, asyncio.Future[Value]] | None:
        """Return id → future if the request used ids, else None."""
        return None if self._by_id is None else dict(self._by_id)

    def topic_name_values(self) -> dict[str, asyncio.Future[Value]] | None:
        """Return name → future if the request used names, else None."""
        return None if self._by_name is None else dict(self._by_name)

    def values(self) -> dict[str, asyncio.Future[Value]] | None:
        """Deprecated: use `topic_name_values`."""
        deprecated("values()", "topic_name_values()")
        return self.topic_name_values()


class DescribeTopicsResult(_ByIdOrName[TopicDescription]):
    """Awaiting it returns TopicDescription by id or by name, as requested, or raises the first failure."""

    async def all_topic_ids(self) -> dict[Uuid, TopicDescription]:
        """Return id → description. Raises ValueError if the request used names."""
        if self._by_id is None:
            raise ValueError("the request used names; use all_topic_names()")
        return await gather(self._by_id)

    async def all_topic_names(self) -> dict[str, TopicDescription]:
        """Return name → description. Raises ValueError if the request used ids."""
        if self._by_name is None:
            raise ValueError("the request used ids; use all_topic_ids()")
        return await gather(self._by_name)

    def all(self) -> Awaitable[dict[str, TopicDescription]]:
        """Deprecated: use `all_topic_names` (KIP-516)."""
        deprecated("all()", "all_topic_names()")
        return self.all_topic_names()

    def __await__(self) -> Generator[Any, None, dict[Any, TopicDescription]]:
        return gather(self._futures).__await__()


class DeleteTopicsResult(_ByIdOrName[None]):
    """Awaiting it waits for all deletions, then raises the first failure, if there was a failure."""

    async def all(self) -> None:
        """Wait for all deletions; raise the first failure."""
        await gather(self._futures)

    def __await__(self) -> Generator[Any, None, None]:
        return self.all().__await__()


def deprecated(old: str, new: str) -> None:
    """Warn the caller of a method that KIP-516 deprecates."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)
