"""`metric.reporters`: the operator's classes that export this broker's metrics (KIP-78).

A reporter is a class without constructor arguments. Every method is optional:

    configure(settings: Mapping[str, str])   the broker's settings, called first
    init(read: Callable[[], str])            `read()` returns the text of /metrics, on the loop's thread
    on_update(cluster_resource)              for a ClusterResourceListener: once, at start
    close()                                  at the stop

Exceptions of a reporter are logged; they never stop the broker.
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
    """The reporters of one broker. The loop's thread makes all calls."""

    def __init__(self, reporters: Sequence[object]) -> None:
        self._reporters = list(reporters)

    @classmethod
    def load(cls, names: Sequence[str]) -> Reporters:
        """Import `module:Class` and create an object of each class. Skip names of JVM classes with a warning, because
        settings files of Apache Kafka contain its JMX reporter. Raises StartError if an import or a constructor fails.
        """
        reporters: list[object] = []
        for name in names:
            if ":" not in name:
                log.warning("metric.reporters: %s is a Java class and has no effect in this broker", name)
                continue
            module, _, attribute = name.partition(":")
            try:
                made: Any = getattr(importlib.import_module(module), attribute)()
            except Exception as problem:  # Importing a user's module may raise any exception.
                raise StartError(f"metric.reporters={name}: {type(problem).__name__}: {problem}") from problem
            reporters.append(made)
        return cls(reporters)

    def start(self, settings: Mapping[str, str], read: Callable[[], str]) -> None:
        """Configure the reporters and give them access to the metrics."""
        self._call("configure", settings)
        self._call("init", read)

    def on_update(self, resource: ClusterResource) -> None:
        """Pass the cluster id to the reporters that are listeners."""
        for reporter in self._reporters:
            if isinstance(reporter, ClusterResourceListener):
                self._guarded(reporter, "on_update", resource)

    def close(self) -> None:
        """Close the reporters at the broker's stop."""
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
            log.exception("metric reporter failed class=%s method=%s", type(reporter).__name__, method)
