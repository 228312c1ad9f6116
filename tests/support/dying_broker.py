"""A broker that dies where a test tells it to, and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.brokers import PybrokerProcess
from tests.transactions.dies_writing import DIED


class DyingBroker(PybrokerProcess):
    """`program`: the module that is run as the broker and knows the places, as `tests.transactions.dies_writing`."""

    def __init__(self, program: str, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, settings)
        self._program = program

    @property
    def where(self) -> Path:
        """The file that says where it dies."""
        return self.folder / "dies"

    def command(self) -> list[str]:
        """Runs `program` in place of the product's own."""
        python, minus_m, _, *rest = super().command()
        return [python, minus_m, self._program, str(self.where), *rest]

    def comes_back(self) -> None:
        """After it has died there. By the main thread: the death of the one that starts it would be the broker's."""
        assert self.wait() == DIED, self.log_tail()
        self.start()
