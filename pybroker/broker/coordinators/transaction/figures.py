"""What transactions wait for and what has become of them, for the metrics (`observability/transaction_metrics.py`)."""

from __future__ import annotations

from collections import Counter

import msgspec


class TransactionFigures(msgspec.Struct):
    """Written on the loop's thread, by whoever does the thing that is counted. All but the first two only grow."""

    without_leader: Counter[str] = msgspec.field(default_factory=Counter)
    """Transactional id → partitions that nobody leads, whose markers wait for that."""
    completing: int = 0
    """Transactions whose markers are written and whose end could not be stored so far."""
    commits: int = 0
    aborts: int = 0
    """Transactions that are complete."""
    timeouts: int = 0
    """Transactions that were aborted because they took too long; they count as aborts, too."""
    expirations: int = 0
    """Transactional ids that nobody used for so long that they were forgotten."""
    refused: int = 0
    """Partitions that were not part of the transaction of who wrote there (KIP-890)."""
