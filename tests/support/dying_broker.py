"""A broker that ends itself at a place that the test names, and starts again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.brokers import PybrokerProcess
from tests.transactions.dies_writing import DIED


class DyingBroker(PybrokerProcess):
    """A broker whose process runs the module `program` (for example `tests.transactions.dies_writing`) instead of
    pybroker. The module knows the places."""

    def __init__(self, program: str, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, settings)
        self._program = program

    @property
    def where(self) -> Path:
        """The file with the name of the place."""
        return self.folder / "dies"

    def command(self) -> list[str]:
        """Return the command line with `program` in place of pybroker."""
        python, minus_m, _, *rest = super().command()
        return [python, minus_m, self._program, str(self.where), *rest]

    def comes_back(self) -> None:
        """Start the broker again after it has ended itself. Call it from the main thread: the broker ends with the
        thread that starts it."""
        assert self.wait() == DIED, self.log_tail()
        self.start()
