"""`metric.reporters`: classes of the user's that take this broker's metrics elsewhere (KIP-78: 257, 277, 290).

A reporter is a class without constructor arguments. Every method is optional:

    configure(settings: Mapping[str, str])   the broker's settings, before anything else
    init(read: Callable[[], str])            `read()` gives the text of /metrics, on the loop's thread
    on_update(cluster_resource)              if it is a ClusterResourceListener: once, at start
    close()                                  at the stop

What a reporter raises is logged; it never stops the broker.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pybroker.cluster_resource import ClusterResource, ClusterResourceListener
from pybroker.errors import StartError

log = logging.getLogger(__name__)


class Reporters:
    """The reporters of one broker. Calls are made on the loop's thread."""

    def __init__(self, reporters: Sequence[object]) -> None:
        self._reporters = list(reporters)

    @classmethod
    def load(cls, names: Sequence[str]) -> Reporters:
        """Imports `module:Class` and makes an object of each. Names of the JVM's classes are passed over, with a
        warning: settings files of Apache Kafka name its JMX reporter. Raises StartError for one that cannot be had.
        """
        reporters: list[object] = []
        for name in names:
            if ":" not in name:
                log.warning("metric.reporters: %s is a class of the JVM and has no effect here", name)
                continue
            module, _, attribute = name.partition(":")
            try:
                made: Any = getattr(importlib.import_module(module), attribute)()
            except Exception as problem:  # whatever the user's module does while it is imported
                raise StartError(f"metric.reporters={name}: {type(problem).__name__}: {problem}") from problem
            reporters.append(made)
        return cls(reporters)

    def start(self, settings: Mapping[str, str], read: Callable[[], str]) -> None:
        """Hands out settings and the way to the metrics."""
        self._call("configure", settings)
        self._call("init", read)

    def on_update(self, resource: ClusterResource) -> None:
        """The cluster id is known: told to those that listen."""
        for reporter in self._reporters:
            if isinstance(reporter, ClusterResourceListener):
                self._guarded(reporter, "on_update", resource)

    def close(self) -> None:
        """The broker stops."""
        self._call("close")
        self._reporters.clear()

    def _call(self, method: str, *arguments: object) -> None:
        for reporter in self._reporters:
            if hasattr(reporter, method):
                self._guarded(reporter, method, *arguments)

    def _guarded(self, reporter: object, method: str, *arguments: object) -> None:
        try:
            getattr(reporter, method)(*arguments)
        except Exception:
            log.exception("metric reporter %s failed in %s", type(reporter).__name__, method)
