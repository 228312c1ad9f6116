"""The end of the metadata log that each broker has applied. The leader learns it from the brokers' reports, and relays
it to the others with its responses to their fetches.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

NO_VERSION = -1


class AppliedOffsets:
    """What one broker knows of all brokers; on the loop's thread. An offset never decreases."""

    def __init__(self) -> None:
        self.version = secrets.randbits(62)
        """Grows with every change. Replicas repeat the version that they received last, so each process begins at a
        number of its own."""
        self.received = NO_VERSION
        """The version that this broker received last from a leader."""
        self._offsets: dict[int, int] = {}
        self._followers: list[Callable[[], None]] = []

    @property
    def offsets(self) -> Mapping[int, int]:
        """Offsets by broker."""
        return self._offsets

    def of(self, broker_id: int) -> int:
        """Return the offset of a broker; -1 if it is unknown."""
        return self._offsets.get(broker_id, -1)

    def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change; it must be quick."""
        self._followers.append(changed)

    def note(self, broker_id: int, offset: int) -> None:
        """Note a broker's report."""
        self._advance({broker_id: offset})

    def receive(self, version: int, offsets: Mapping[int, int]) -> None:
        """Take what a leader relays."""
        self.received = version
        self._advance(offsets)

    def _advance(self, offsets: Mapping[int, int]) -> None:
        later = {broker_id: offset for broker_id, offset in offsets.items() if offset > self.of(broker_id)}
        if later:
            self._offsets |= later
            self.version += 1
            for changed in self._followers:
                changed()
