"""Without any of the journal's safeguards, a test beside the source or a power cut fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import StartBroker
from tests.support.disks import LoopDisk
from tests.trouble.planted_journal import FAULTS, FLUSHED_BEFORE_IT_IS_WRITTEN, Source
from tests.trouble.test_power_cuts import RecreatedTopic, cut_power, directory

pytestmark = [pytest.mark.slow, pytest.mark.checklist("C2"), pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return Source(tmp_path_factory.mktemp("planted") / "source")


@pytest.mark.parametrize("fault", FAULTS)
def test_tests_notice(source: Source, fault: str) -> None:
    source.plant(FAULTS[fault])
    ran = source.cargo("test", "-p", "pybroker-storage", "--lib", "journal")
    assert "test result: FAILED" in ran.stdout, f"{fault}: nobody notices\n{ran.stdout[-2000:]}{ran.stderr[-3000:]}"


def test_power_cuts_notice(
    source: Source, disk: LoopDisk | None, start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if disk is None:
        pytest.skip("no disk that can lose its power: that takes a user who may mount")
    source.plant(FLUSHED_BEFORE_IT_IS_WRITTEN)
    source.install(tmp_path)
    # Where the broker finds the package.
    monkeypatch.chdir(tmp_path)
    broker = start_broker(directory(disk, tmp_path))
    again = RecreatedTopic(broker)

    def lose_power() -> None:
        for _ in range(10):
            again.go_on()
            cut_power(broker, disk)
            broker.start()
            again.check()

    with pytest.raises(AssertionError, match="missing"):
        lose_power()
