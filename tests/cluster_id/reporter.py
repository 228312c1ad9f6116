"""A metric reporter as a user would write it: it records every call in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pybroker.cluster_resource import ClusterResource, ClusterResourceListener


class Noting(ClusterResourceListener):
    """A reporter with all optional methods."""

    def __init__(self) -> None:
        self._path = Path(os.environ["PYBROKER_TEST_REPORTER"])
        self._note("init")

    def _note(self, what: str, value: object = None) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps([what, value]) + "\n")

    def configure(self, settings: Mapping[str, str]) -> None:
        self._note("configure", settings["metric.reporters"])

    def init(self, read: Callable[[], str]) -> None:
        self._read = read

    def on_update(self, cluster_resource: ClusterResource) -> None:
        self._note("on_update", cluster_resource.cluster_id)

    def close(self) -> None:
        self._note("close", f'cluster_id="{self._id_in_metrics()}"')

    def _id_in_metrics(self) -> str:
        line = next(line for line in self._read().splitlines() if line.startswith("kafka_cluster_cluster_clusterid"))
        return line.split('"')[1]


class Plain:
    """A reporter that is not a listener, although it has a method with that name, which must not be called (checklist
    293)."""

    def on_update(self, cluster_resource: ClusterResource) -> None:
        raise AssertionError("called without implementing the interface")


class Broken(ClusterResourceListener):
    """A reporter that fails; the broker continues."""

    def on_update(self, cluster_resource: ClusterResource) -> None:
        raise RuntimeError("broken reporter")
