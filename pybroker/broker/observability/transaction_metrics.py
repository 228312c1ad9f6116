"""Transaction metrics, under Kafka's names where they exist:
`kafka.coordinator.transaction:type=TransactionMarkerChannelManager` (pending markers),
`kafka.server:type=AddPartitionsToTxnManager` (KIP-890); other metrics have names of pybroker.

Kafka also computes the rate of failed verifications. For pybroker, the monitoring system computes it.
"""

from __future__ import annotations

from collections import Counter

from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.transaction import TransactionState
from pybroker.broker.observability.metric import Metric

_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
_VERIFICATIONS = "kafka_server_addpartitionstotxnmanager"
_OWN = "pybroker_transactions"


def transaction_metrics(coordinator: TransactionCoordinator) -> list[Metric]:
    """Return metrics of the transactional ids that this broker coordinates, without shards that are still loading."""
    states = Counter(transaction.state for _, transaction in coordinator.list_transactions()[0])
    statistics = coordinator.statistics
    return [
        Metric(
            f"{_MARKERS}_unknowndestinationqueuesize",
            "Markers that wait for a leader of their partition (Kafka: UnknownDestinationQueueSize).",
            statistics.without_leader.total,
        ),
        Metric(
            f"{_MARKERS}_logappendretryqueuesize",
            "Transactions whose markers are written and whose end is not stored yet (Kafka: LogAppendRetryQueueSize).",
            lambda: statistics.completing,
        ),
        _count(
            f"{_VERIFICATIONS}_verificationfailure_count",
            "Writes to partitions that were not part of their transaction (Kafka: VerificationFailureRate)",
            statistics.refused,
        ),
        *(
            Metric(
                "pybroker_transactional_ids",
                "Transactional ids that this broker coordinates, by state.",
                lambda state=state: states[state],  # type: ignore[misc]  # bound now
                {"state": state.shown},
            )
            for state in TransactionState
        ),
        _count(f"{_OWN}_committed_total", "Transactions that were committed", statistics.commits),
        _count(f"{_OWN}_aborted_total", "Transactions that were aborted", statistics.aborts),
        _count(f"{_OWN}_timed_out_total", "Transactions that were aborted after their timeout", statistics.timeouts),
        Metric(
            "pybroker_transactional_id_bytes",
            "Approximate memory of the transactional ids that this broker coordinates.",
            lambda: coordinator.id_bytes,
        ),
        _count(
            "pybroker_transactional_ids_refused_total",
            "Transactional ids refused for lack of room",
            statistics.ids_refused,
        ),
        _count("pybroker_transactional_ids_expired_total", "Transactional ids that expired", statistics.expirations),
    ]


def _count(name: str, what: str, number: int) -> Metric:
    return Metric(name, f"{what}, since the start.", lambda: number, kind="counter")
