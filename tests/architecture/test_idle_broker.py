"""Modules that an idle broker without options has not imported: unused features take neither memory nor time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.quorum.scene import QuorumBroker, Scene, until
from tests.support.brokers import PybrokerProcess

RARE = (
    # Libraries of options and of other commands.
    "click",
    "cryptography",
    "joserfc",
    "kazoo",
    "opentelemetry",
    "prometheus_client",
    "requests",
    "rich",
    # The interpreter's modules that are large or slow to import.
    "argparse",
    "ctypes",
    "dataclasses",
    "email",
    "http",
    "json",
    "multiprocessing",
    "shutil",
    "tempfile",
    "unittest",
    # pybroker's own modules.
    "pybroker.broker.admin.configs",
    "pybroker.broker.admin.quotas",
    "pybroker.broker.admin.users",
    "pybroker.broker.api.broker_routes",
    "pybroker.broker.controller.quorum_election",
    "pybroker.cli",
    "pybroker.client",
    "pybroker.broker.coordinators.consumer.consumer_kind",
    "pybroker.broker.coordinators.group.shard_dependencies",
    "pybroker.broker.coordinators.group.shard",
    "pybroker.broker.coordinators.share.share_kind",
    "pybroker.broker.coordinators.share_partition.manager",
    "pybroker.broker.coordinators.share_partition.partition",
    "pybroker.broker.coordinators.share_state.shard",
    "pybroker.broker.coordinators.streams.streams_kind",
    "pybroker.broker.observability.diagnosis.diagnosis_report",
    "pybroker.broker.interbroker",
    "pybroker.broker.lifecycle.quorum_composition",
    "pybroker.broker.metadata.records",
    "pybroker.broker.metadata.zookeeper_store",
    "pybroker.broker.observability.broker_metrics",
    "pybroker.broker.offline",
    "pybroker.broker.observability.otlp",
    "pybroker.broker.quorum",
    "pybroker.broker.replicas.metadata_publisher",
    "pybroker.testing",
)

LIMIT_S = 120

CONTROL = {"k04_leader_and_isr", "k05_stop_replica", "k06_update_metadata"}
"""Messages of the controller to brokers, also in one process."""


TELLS_AT_ITS_END = """
import sys
from pybroker.__main__ import main
try:
    main()
finally:
    print("imported:", *sys.modules)
"""


class _TellsImports(PybrokerProcess):
    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        return [python, "-c", TELLS_AT_ITS_END, *arguments]

    def imported(self) -> set[str]:
        """Return the modules that the stopped broker had imported."""
        line = next(line for line in self.console.read_text().splitlines() if line.startswith("imported:"))
        return set(line.split()[1:])


class _TellingVoter(_TellsImports, QuorumBroker):
    pass


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the modules that a broker has imported after it has started, answered one Metadata request, and
    stopped."""
    broker = _TellsImports(tmp_path_factory.mktemp("idle"))
    broker.start()
    broker.stop()
    return broker.imported()


def test_a_voter_has_imported_neither_other_stores_nor_heavy_modules(tmp_path: Path) -> None:
    """For the memory of a broker in a metadata quorum."""
    with Scene(tmp_path, kind=_TellingVoter) as scene:
        scene.start()
        until(scene.all_vote)
        voter = scene.brokers[2]
        assert isinstance(voter, _TellingVoter)
        voter.stop()
    imported = voter.imported()
    assert "pybroker.broker.quorum.native_log" in imported
    heavy = {"copy", "csv", "dataclasses", "email", "importlib.metadata", "kazoo", "sqlite3", "tempfile", "zipfile"}
    assert heavy & imported == set()


def test_what_is_rare_waits_for_its_first_use(imported: set[str]) -> None:
    assert "pybroker.broker.lifecycle.app" in imported
    assert {name for name in imported if name in RARE or name.startswith(tuple(f"{rare}." for rare in RARE))} == set()


def test_handlers_wait_for_the_first_request_of_their_kind(imported: set[str]) -> None:
    handlers = {path.stem for path in (Path(__file__).parents[2] / "pybroker" / "broker" / "api").glob("k*.py")}
    assert len(handlers) > 50
    assert {name for name in handlers if f"pybroker.broker.api.{name}" in imported} == CONTROL


IMPORTS_ALL = """
import importlib, pkgutil, pybroker
names = [name for _, name, _ in pkgutil.walk_packages(pybroker.__path__, "pybroker.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def test_whatever_waits_can_be_imported() -> None:
    """A module that cannot be imported fails here, not at the first request that needs it."""
    command = [sys.executable, "-c", IMPORTS_ALL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 500
