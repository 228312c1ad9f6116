"""Gauges and counters of transactions, for the metrics (`observability/transaction_metrics.py`)."""

from __future__ import annotations

from collections import Counter

import msgspec


class TransactionStatistics(msgspec.Struct):
    """Written on the event loop's thread by the code that does the counted work. All but the first two only grow."""

    without_leader: Counter[str] = msgspec.field(default_factory=Counter)
    """Transactional id → partitions without a leader, whose markers are waiting."""
    completing: int = 0
    """Transactions with all markers written whose completion could not be stored yet."""
    commits: int = 0
    aborts: int = 0
    """Completed transactions."""
    timeouts: int = 0
    """Transactions aborted by timeout; they count as aborts, too."""
    expirations: int = 0
    """Transactional ids forgotten after a long time without use."""
    refused: int = 0
    """Partitions with a write from outside its transaction (KIP-890)."""
