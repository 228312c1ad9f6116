"""Gauges and counters of transactions, for `observability/transaction_metrics.py`."""

from __future__ import annotations

from collections import Counter

import msgspec


class TransactionStatistics(msgspec.Struct):
    """Updated by the coordinator on the event loop's thread. The first two are gauges, the others only grow."""

    without_leader: Counter[str] = msgspec.field(default_factory=Counter)
    """Transactional id → partitions whose markers wait because the partition has no leader."""
    completing: int = 0
    """Transactions whose markers are all written, but whose completion could not be stored yet."""
    commits: int = 0
    aborts: int = 0
    """Aborted transactions that are complete."""
    timeouts: int = 0
    """Transactions aborted because of their timeout; `aborts` includes them."""
    expirations: int = 0
    """Transactional ids that were forgotten because they were unused."""
    ids_refused: int = 0
    """Transactional ids refused because all together would take too much memory."""
    refused: int = 0
    """Partitions that refused a record because they were not part of its transaction (KIP-890)."""
