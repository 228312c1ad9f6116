"""One shard of the share coordinator: the states whose keys hash to one partition of `__share_group_state`.

A write takes effect when it is durable. Most writes store only the changes (ShareUpdate). The shard stores the whole
state (ShareSnapshot) after a number of updates, and after a write whose outcome is unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.log import TOO_LARGE, ShardLog
from pybroker.broker.coordinators.shards.shard import Shard
from pybroker.broker.coordinators.share_state.records import (
    SNAPSHOT,
    decode_key,
    decode_snapshot,
    decode_update,
    snapshot_key,
    snapshot_value,
    update_key,
    update_value,
)
from pybroker.broker.coordinators.share_state.state import NO_COUNT, NO_OFFSET, Key, ShareState, Write, changed
from pybroker.errors import KafkaError
from pybroker.native import CodecError, StoredRecord
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

Done = Callable[[ErrorCode], None]
"""Called once: with NONE when the change is durable, or with an error. After an error the caller assumes that nothing
has changed.
"""


class ShareStateEntry(msgspec.Struct, eq=False):
    """One share state."""

    state: ShareState
    """The state as it is in the log."""
    coming: ShareState
    """The state with all pending writes applied."""
    snapshot_epoch: int = 0
    snapshot_offset: int = -1
    """Log offset of the last snapshot. Records of this state before it are not needed."""
    updates: int = 0
    """Updates since the last snapshot."""
    in_flight: int = 0
    doubtful: bool = False
    """Whether a failed write may be in the log. If so, the next write is a snapshot."""


class LoadedShareState(msgspec.Struct):
    """Collects the latest state of each key during a replay. Implements the shards' `Replay`."""

    entries: dict[Key, ShareStateEntry] = {}
    records: int = 0
    damaged: int = 0

    def take(self, record: StoredRecord) -> None:
        self.records += 1
        try:
            parsed = None if record.key is None else decode_key(record.key)
            if parsed is None:
                self.damaged += 1
                return
            kind, key = parsed
            if kind == SNAPSHOT:
                if record.value is None:
                    self.entries.pop(key, None)
                    return
                epoch, state = decode_snapshot(record.value)
                self.entries[key] = ShareStateEntry(state, state, epoch, record.offset)
            elif record.value is not None and (entry := self.entries.get(key)) is not None:
                epoch, write = decode_update(record.value, entry.state.state_epoch)
                if epoch == entry.snapshot_epoch:
                    entry.state = entry.coming = changed(entry.state, write)
                    entry.updates += 1
        except CodecError as problem:
            self.damaged += 1
            log.warning(
                "skipped an unreadable record of the share-group state topic offset=%d: %s", record.offset, problem
            )


class ShareStateShard(Shard[LoadedShareState]):
    """The share states of one shard. `updates_max`: returns share.coordinator.snapshot.update.records.per.snapshot."""

    def __init__(self, shard_log: ShardLog, clock: Clock, updates_max: Callable[[], int]) -> None:
        super().__init__(shard_log)
        self.entries: dict[Key, ShareStateEntry] = {}
        self.pruned_to = 0
        """Records before this log offset have been deleted."""
        self._clock = clock
        self._updates_max = updates_max

    # --- interface for `Shards` ---------------------------------------------------------------------------------------

    def replay(self) -> LoadedShareState:
        """Return an object that replays the partition's records."""
        return LoadedShareState()

    def install(self, loaded: LoadedShareState) -> None:
        """Install the loaded states."""
        self.entries = loaded.entries
        if loaded.records:
            log.info(
                "share groups' partition %d: %d records, %d states (%d damaged records)",
                self.partition,
                loaded.records,
                len(self.entries),
                loaded.damaged,
            )

    def give_up(self, error: ErrorCode) -> None:
        """End the shard because it moves to another broker or the broker stops. The log ends pending writes with an
        error."""
        self.entries = {}

    # --- states -------------------------------------------------------------------------------------------------------

    def found(self, key: Key) -> ShareState | None:
        """Return the state as it is in the log; None if it does not exist."""
        entry = self.entries.get(key)
        return None if entry is None else entry.state

    def initialize(self, key: Key, state_epoch: int, start_offset: int, done: Done) -> None:
        """Create a state. If it exists, set its start offset and the later state epoch.

        A repeated call with the same state epoch changes nothing, because records may have been acquired in the
        meantime. Raise KafkaError FENCED_STATE_EPOCH for an earlier state epoch.
        """
        entry = self.entries.get(key)
        if entry is not None:
            known = entry.coming.state_epoch
            if state_epoch < known:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"The state has epoch {known}, not {state_epoch}.")
            if state_epoch == known and start_offset == NO_OFFSET:
                if entry.state.state_epoch == known and not entry.doubtful and not entry.in_flight:
                    done(ErrorCode.NONE)
                else:
                    self._snapshot(key, entry.coming, done)
                return
        leader_epoch = 0 if entry is None else entry.coming.leader_epoch
        # If the start offset is known, no record after it is complete. If it is not known, the number of complete
        # records is unknown.
        complete = NO_COUNT if start_offset == NO_OFFSET else 0
        self._snapshot(key, ShareState(state_epoch, start_offset, leader_epoch, complete), done)

    def read(self, key: Key, leader_epoch: int, done: Callable[[ErrorCode, ShareState | None], None]) -> None:
        """Return the state to the leader of the partition in this epoch, and fence writes of earlier epochs.

        Raise KafkaError INVALID_REQUEST if there is no such state, or FENCED_LEADER_EPOCH for an earlier epoch.
        """
        entry = self._known(key)
        _check_leader(entry, leader_epoch)
        if leader_epoch == entry.coming.leader_epoch and not entry.in_flight and not entry.doubtful:
            done(ErrorCode.NONE, entry.state)
            return
        # Start from the state that includes all pending writes, because they precede this snapshot in the log.
        coming = msgspec.structs.replace(entry.coming, leader_epoch=leader_epoch)
        self._snapshot(key, coming, lambda error: done(error, None if error else coming))

    def write(self, key: Key, write: Write, done: Done) -> None:
        """Change a state. Raise KafkaError INVALID_REQUEST, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH."""
        entry = self._known(key)
        _check_leader(entry, write.leader_epoch)
        known = entry.coming.state_epoch
        if write.state_epoch < known:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"The state has epoch {known}, not {write.state_epoch}.")
        after = changed(msgspec.structs.replace(entry.coming, state_epoch=write.state_epoch), write)
        if entry.doubtful or write.state_epoch != known or entry.updates >= self._updates_max():
            self._snapshot(key, after, done)
            return
        entry.updates += 1
        value = update_value(write, entry.snapshot_epoch)
        self._store(key, entry, after, (update_key(key), value), lambda error, _: done(error))

    def delete(self, key: Key, done: Done) -> None:
        """Delete a state. Do nothing if it does not exist."""
        entry = self.entries.pop(key, None)
        if entry is None:
            done(ErrorCode.NONE)
            return

        def written(error: ErrorCode, _: int) -> None:
            if error is not ErrorCode.NONE:
                entry.doubtful = True
                self.entries.setdefault(key, entry)
            done(error)

        self.log.write([(snapshot_key(key), None)], written)

    def _known(self, key: Key) -> ShareStateEntry:
        entry = self.entries.get(key)
        if entry is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Group {key.group} has no state in partition {key.partition} of {key[1]}."
            )
        return entry

    def _snapshot(self, key: Key, after: ShareState, done: Done) -> None:
        entry = self.entries.get(key)
        fresh = entry is None
        if entry is None:
            entry = self.entries[key] = ShareStateEntry(after, after, -1)
        entry.snapshot_epoch += 1
        entry.updates = 0
        value = snapshot_value(after, entry.snapshot_epoch, self._clock.wall_ms())

        def stored(error: ErrorCode, offset: int) -> None:
            if error is ErrorCode.NONE:
                entry.snapshot_offset, entry.doubtful = offset, False
            elif fresh and self.entries.get(key) is entry and entry.snapshot_offset < 0:
                del self.entries[key]
            done(error)

        self._store(key, entry, after, (snapshot_key(key), value), stored)

    def _store(
        self,
        key: Key,
        entry: ShareStateEntry,
        after: ShareState,
        record: tuple[bytes, bytes],
        done: Callable[[ErrorCode, int], None],
    ) -> None:
        entry.coming = after
        entry.in_flight += 1

        def written(error: ErrorCode, offset: int) -> None:
            entry.in_flight -= 1
            if error is ErrorCode.NONE:
                entry.state = after
            else:
                entry.doubtful = True
                if not entry.in_flight:
                    entry.coming = entry.state
            done(ErrorCode.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else error, offset)

        self.log.write([record], written)


def _check_leader(entry: ShareStateEntry, leader_epoch: int) -> None:
    known = entry.coming.leader_epoch
    if leader_epoch < known:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"The partition has leader epoch {known}, not {leader_epoch}.")
