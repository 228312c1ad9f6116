"""Replay of one partition of `__transaction_state`: keeps the last record of every id. Runs in a worker thread."""

from __future__ import annotations

import logging

import msgspec

from pybroker.broker.coordinators.transaction.records import decode_key, decode_value
from pybroker.broker.coordinators.transaction.transaction import CoordinatedTransaction
from pybroker.native import CodecError, StoredRecord

log = logging.getLogger(__name__)


class LoadedTransactions(msgspec.Struct):
    """The last value of every transactional id. Implements the shards' `Replay`."""

    transactions: dict[str, CoordinatedTransaction] = {}
    records: int = 0
    damaged: int = 0
    """Undecodable records, which are skipped."""

    def take(self, record: StoredRecord) -> None:
        """Apply one record; a tombstone removes its key."""
        self.records += 1
        try:
            transactional_id = None if record.key is None else decode_key(record.key)
            if transactional_id is None:
                self.damaged += 1
            elif record.value is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = decode_value(record.value)
        except CodecError as problem:
            self.damaged += 1
            log.warning("skipped an unreadable record of the transactions topic offset=%d: %s", record.offset, problem)
