"""How this broker's session with the metadata store is, and has been."""

from __future__ import annotations

from pybroker.broker.metadata.store import MetadataStore, SessionState


class StoreSession:
    """Follows the store's word from its making on. An embedded store is always connected."""

    def __init__(self, store: MetadataStore) -> None:
        self.state = SessionState.CONNECTED
        self.told: dict[SessionState, int] = dict.fromkeys(SessionState, 0)
        """How often each was said since the start."""
        store.on_session(self._changed)

    @property
    def connected(self) -> bool:
        """Whether the store can be reached."""
        return self.state in (SessionState.CONNECTED, SessionState.RECONNECTED)

    def _changed(self, state: SessionState) -> None:
        self.state = state
        self.told[state] += 1
