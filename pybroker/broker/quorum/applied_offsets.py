"""The offset up to which each broker has applied the metadata log. Brokers report it to the leader, and the leader
sends it to the other brokers in its fetch responses."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

NO_VERSION = -1


class AppliedOffsets:
    """The applied offsets of all brokers, as far as this broker knows them; used on the loop's thread. An offset never
    decreases."""

    def __init__(self) -> None:
        self.version = secrets.randbits(62)
        """Increases with every change. Replicas repeat the version that they received last, so each process starts at a
        different number."""
        self.relayed = self.version
        """The newest version that replicas must get without waiting for records."""
        self.received = NO_VERSION
        """The last version that this broker received from a leader."""
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
        """Call `changed` after each change. The function must be quick."""
        self._followers.append(changed)

    def must_answer(self, version: int) -> bool:
        """Return whether a replica with this version must get the offsets at once, because it was not waiting for
        records when the other replicas got them."""
        return version != NO_VERSION and not self.relayed <= version <= self.version

    def note(self, broker_id: int, offset: int) -> None:
        """Note a broker's report."""
        self._advance({broker_id: offset})

    def receive(self, version: int, offsets: Mapping[int, int]) -> None:
        """Apply the offsets that a leader has sent."""
        self.received = version
        self._advance(offsets)

    def _advance(self, offsets: Mapping[int, int]) -> None:
        later = {broker_id: offset for broker_id, offset in offsets.items() if offset > self.of(broker_id)}
        if later:
            self._offsets |= later
            self.version += 1
            for changed in self._followers:
                changed()
