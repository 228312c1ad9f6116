"""State and event counts of this broker's session with the metadata store."""

from __future__ import annotations

from typing import Protocol

from pybroker.broker.metadata.metadata_store import MetadataStore, SessionState


class MetadataSession(Protocol):
    """The connection to the metadata store or the metadata quorum."""

    state: SessionState
    event_counts: dict[SessionState, int]
    """Session event → number of occurrences since the start."""

    @property
    def connected(self) -> bool:
        """Whether the controller can make decisions now."""
        ...


class StoreSession:
    """Counts the store's session events. An embedded store is always connected."""

    def __init__(self, store: MetadataStore) -> None:
        self.state = SessionState.CONNECTED
        self.event_counts: dict[SessionState, int] = dict.fromkeys(SessionState, 0)
        """Session event → number of occurrences since the start."""
        store.on_session(self._changed)

    @property
    def connected(self) -> bool:
        """Whether the store is reachable."""
        return self.state in (SessionState.CONNECTED, SessionState.RECONNECTED)

    def _changed(self, state: SessionState) -> None:
        self.state = state
        self.event_counts[state] += 1
