"""The transaction components of a broker, bundled for its handlers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.dead_topics import OwedMarkers
from pybroker.broker.coordinators.transaction.markers import LocalMarkers
from pybroker.broker.coordinators.transaction.membership import TransactionMembership
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits


class Transactions(msgspec.Struct, frozen=True):
    coordinator: TransactionCoordinator
    membership: TransactionMembership
    markers: LocalMarkers
    owed: OwedMarkers
    commits: TransactionalCommits
    clock: Clock
    disconnect: Callable[[], None] | None
    """Closes the connections to other brokers at shutdown; None on a broker without peers."""
