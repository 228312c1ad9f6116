"""The event loop of all blocking clients, and wrappers that wait for it."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pybroker.client.cluster_metadata import Cluster

Given = ParamSpec("Given")
Result = TypeVar("Result")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all blocking clients of this process; its thread is a daemon."""
    global _loop, _thread  # noqa: PLW0603 - one for the process, created on first use
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="pybroker-client", daemon=True)
            _thread.start()
        return _loop


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the loop and wait for it. An interrupt (Ctrl-C) cancels it."""
    target = loop()
    if threading.current_thread() is _thread:
        work.close()
        raise RuntimeError("a blocking client was called inside its own event loop; use pybroker.client there")
    future = asyncio.run_coroutine_threadsafe(work, target)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def waiting(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """Return the blocking form of an asynchronous method."""

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Result:
        return run(method(self._inner, *args, **named))

    return call


def direct(method: Callable[Concatenate[Any, Given], Result]) -> Callable[Concatenate[Any, Given], Result]:
    """Wrap a method that does not wait: the wrapper runs it on the loop's thread and returns its result."""

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Result:
        async def there() -> Result:
            return method(self._inner, *args, **named)

        return run(there())

    return call


class BlockingClient:
    """Base of the blocking clients."""

    _inner: Any

    @property
    def cluster(self) -> Cluster:
        """The newest cluster metadata that the client has received."""
        cluster: Cluster = self._inner.cluster
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._inner.__aexit__(kind, problem, traceback))


async def made(kind: Callable[[Mapping[str, Any]], Result], config: Mapping[str, Any]) -> Result:
    """Create a client on the loop of the blocking clients, because a client belongs to the loop on which it was
    created."""
    return kind(config)
