"""If every user of the machine can change settings or data, the broker logs one warning and starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import StartBroker
from tests.support.brokers import PybrokerProcess
from tests.topic_ids.lives import until


def warnings(broker: PybrokerProcess, place: Path) -> list[str]:
    lines = broker.console.read_text().splitlines()
    return [line for line in lines if " WARN " in line and f" {place} can be changed by every user" in line]


class FromFile(PybrokerProcess):
    """A broker that is started with `--config FILE`."""

    @property
    def file(self) -> Path:
        return self.folder / "server.properties"

    def command(self) -> list[str]:
        self.file.touch()
        return [*super().command(), "--config", str(self.file)]


@pytest.mark.parametrize(("mode", "expected"), [(0o666, 1), (0o644, 0)])
def test_settings(mode: int, expected: int, tmp_path: Path) -> None:
    broker = FromFile(tmp_path / "broker")
    broker.file.touch()
    broker.file.chmod(mode)
    try:
        broker.start()
        until(lambda: len(warnings(broker, broker.file)) == expected)
    finally:
        broker.kill()


def test_data_directories(start_broker: StartBroker, tmp_path: Path) -> None:
    """Each directory is tested separately; a new one and a private one cause no warning."""
    public, private, new = (tmp_path / name for name in ("public", "private", "new"))
    for directory, mode in ((public, 0o777), (private, 0o750)):
        directory.mkdir()
        directory.chmod(mode)
    broker = start_broker({"log.dirs": f"{public},{private},{new}"})
    assert isinstance(broker, PybrokerProcess)

    def said() -> list[int]:
        return [len(warnings(broker, place)) for place in (public, private, new)]

    until(lambda: said() == [1, 0, 0])
    broker.restart()
    # A new one is private.
    until(lambda: said() == [2, 0, 0])
