"""Health of the cluster, under Kafka's names: `kafka.server:type=ReplicaManager`, `kafka.controller:type=…`,
`kafka.server:type=ReplicaFetcherManager`, `kafka.server:type=SessionExpireListener`.

As in Kafka, ReplicaManager's metrics cover the partitions that this broker leads or hosts. KafkaController's metrics
are 0 on every broker except the controller, so that sums over all brokers are correct. pybroker has counters in place
of Kafka's rates (…PerSec); the monitoring system computes the rate. Kafka's timers are a count and a sum of
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pybroker.broker.cluster.queue_metrics import Timer
from pybroker.broker.metadata.deletion_records import DELETING, STAGED, UNDELETING
from pybroker.broker.metadata.metadata_store import SessionState
from pybroker.broker.observability.metric import Metric
from pybroker.broker.observability.quorum_metrics import quorum_metrics
from pybroker.broker.services import Services

ELECTING = (
    "BrokersChanged",
    "FenceBroker",
    "RegisterBroker",
    "BrokerSessionEnded",
    "StopBroker",
    "ReplicasOffline",
    "ShutDownBroker",
    "ElectLeaders",
    "ElectAnyLeaders",
    "BalanceLeaders",
)
"""Events that may change partition leaders."""

_REPLICAS = "kafka_server_replicamanager"
_CONTROLLER = "kafka_controller_kafkacontroller"
_EVENTS = "kafka_controller_controllereventmanager"
_STATS = "kafka_controller_controllerstats"
_FETCHERS = "kafka_server_replicafetchermanager"
_FETCHER = "kafka_server_fetcherstats"
_SESSION = "kafka_server_sessionexpirelistener"
_REPLICA_CLIENT = {"clientid": "Replica"}


def cluster_metrics(services: Services) -> Iterator[Metric]:
    """Yield all metrics; a single broker has no cluster metrics."""
    yield from _replica_manager(services)
    yield from _controller(services)
    if services.config.in_cluster:
        yield from _fetchers(services)
        if services.cluster_state.quorum is None:
            yield from _session(services)
        yield from quorum_metrics(services)


def _gauge(prefix: str, kafkas: str, what: str, value: float) -> Metric:
    return Metric(f"{prefix}_{kafkas.lower()}", f"{what} (Kafka: {kafkas}).", lambda: value)


def _counter(prefix: str, kafkas: str, what: str, value: float) -> Metric:
    """Return a counter. It replaces Kafka's rate (…PerSec) with the name `kafkas`."""
    name = f"{prefix}_{kafkas.removesuffix('PerSec').lower()}_total"
    return Metric(name, f"{what} since the start (Kafka: {kafkas}).", lambda: value, kind="counter")


def _timer(prefix: str, kafkas: str, what: str, timer: Timer) -> Iterator[Metric]:
    name = f"{prefix}_{kafkas.lower()}"
    text = f"{what}: count and total milliseconds (Kafka: {kafkas})."
    yield Metric(name, text, lambda: timer.count, kind="summary", suffix="_count")
    yield Metric(name, text, lambda: timer.total_ms, kind="summary", suffix="_sum")


def _replica_manager(services: Services) -> Iterator[Metric]:
    state, changes = services.cluster_state, services.figures.changes
    led = state.conditions.led_here()
    load = state.conditions.loads().get(state.broker_id)
    gauge, counter = partial(_gauge, _REPLICAS), partial(_counter, _REPLICAS)
    yield gauge("LeaderCount", "Partitions that this broker leads", led.partitions)
    yield gauge("PartitionCount", "Replicas on this broker", 0 if load is None else load.replicas)
    yield gauge(
        "UnderReplicatedPartitions", "Partitions led here with a replica that is not in sync", led.under_replicated
    )
    yield gauge(
        "UnderMinIsrPartitionCount",
        "Partitions led here with fewer replicas in sync than min.insync.replicas",
        led.under_min_isr,
    )
    yield gauge(
        "AtMinIsrPartitionCount", "Partitions led here with exactly min.insync.replicas in sync", led.at_min_isr
    )
    yield gauge("ReassigningPartitions", "Partitions led here that are being reassigned", led.reassigning)
    yield counter("IsrShrinksPerSec", "Partitions led here that lost a replica in sync", changes.isr_shrinks)
    yield counter("IsrExpandsPerSec", "Partitions led here that got a replica in sync", changes.isr_expands)
    failed = services.figures.failed_isr_updates()
    yield counter("FailedIsrUpdatesPerSec", "ISR changes that the controller refused", failed)


def _controller(services: Services) -> Iterator[Metric]:
    state, figures = services.cluster_state, services.figures
    image, active = state.conditions.image, figures.is_controller()
    counts = state.conditions.counts()
    pending = [deletion for deletion in image.deletions.values() if deletion.state in (DELETING, STAGED, UNDELETING)]
    deleting = [deletion for deletion in pending if deletion.state == DELETING]
    gauge = partial(_gauge, _CONTROLLER)

    def only_here(kafkas: str, what: str, value: float) -> Metric:
        return gauge(kafkas, f"{what}; 0 where this broker is not the controller", value if active else 0)

    yield gauge("ActiveControllerCount", "Whether this broker is the controller", int(active))
    yield only_here("OfflinePartitionsCount", "Partitions without a leader", counts.offline)
    imbalance = "Partitions whose leader is not the preferred one"
    yield only_here("PreferredReplicaImbalanceCount", imbalance, counts.not_preferred)
    yield only_here("GlobalTopicCount", "Topics", len(image.topics))
    yield only_here("GlobalPartitionCount", "Partitions", counts.partitions)
    yield only_here("ActiveBrokerCount", "Brokers that are alive", len(image.brokers))
    yield only_here("TopicsToDeleteCount", "Deleted topics with a replica that is not staged yet", len(deleting))
    replicas = sum(len(brokers) for deletion in deleting for brokers in deletion.partitions.values())
    yield only_here("ReplicasToDeleteCount", "Replicas of deleted topics that are not staged yet", replicas)
    queue = figures.queue
    yield from _timer(_EVENTS, "EventQueueTimeMs", "Time that events waited in the controller's queue", queue.waited)
    yield from _timer(
        _EVENTS, "EventQueueProcessingTimeMs", "Time that the controller took to process events", queue.total()
    )
    yield _gauge(_EVENTS, "EventQueueSize", "Events in the controller's queue", figures.events_waiting())
    yield from _timer(_STATS, "LeaderElectionRateAndTimeMs", "Elections of leaders", queue.total(*ELECTING))
    changes = figures.changes
    yield _counter(
        _STATS, "UncleanLeaderElectionsPerSec", "Elections of leaders that were not in sync", changes.unclean_elections
    )
    yield Metric(
        "pybroker_leader_elections_total",
        "Leaders elected while this broker was the controller.",
        lambda: changes.elections,
        kind="counter",
    )


def _fetchers(services: Services) -> Iterator[Metric]:
    figures = services.native.fetchers.figures()
    gauge = partial(Metric, labels=_REPLICA_CLIENT)
    yield gauge(
        f"{_FETCHERS}_maxlag",
        "Largest number of offsets by which a replica here is behind its leader's high watermark (Kafka: MaxLag).",
        lambda: max((figure.lag_max for figure in figures), default=0),
    )
    yield gauge(
        f"{_FETCHERS}_deadthreadcount",
        "Leaders that this broker follows without a connection to them (Kafka: DeadThreadCount).",
        lambda: sum(not figure.connected for figure in figures),
    )
    for name, help_text, field in (
        ("partitions", "Partitions that this broker follows at that leader.", "partitions"),
        (
            "heldback",
            "Partitions that this broker does not fetch at the moment, after an error or until they are flushed.",
            "held_back",
        ),
    ):
        for figure in figures:
            labels = {"leader": str(figure.leader)}
            yield Metric(f"{_FETCHERS}_{name}", help_text, partial(getattr, figure, field), labels)
    for name, help_text in (
        ("requests", "Fetch requests sent to that leader since the start (Kafka: RequestsPerSec)."),
        ("bytes", "Bytes copied from that leader since the start (Kafka: BytesPerSec)."),
    ):
        for figure in figures:
            labels = {"leader": str(figure.leader)}
            yield Metric(f"{_FETCHER}_{name}_total", help_text, partial(getattr, figure, name), labels, "counter")


def _session(services: Services) -> Iterator[Metric]:
    session = services.cluster_state.session
    text = "1 for the state of the session with ZooKeeper, 0 for the others (Kafka: SessionState)."
    for state in ("CONNECTED", "SUSPENDED", "LOST"):
        now = "CONNECTED" if session.connected else session.state.name
        yield Metric(f"{_SESSION}_sessionstate", text, partial(int, state == now), {"state": state})
    counts = session.event_counts
    counter = partial(_counter, _SESSION)
    yield counter("ZooKeeperDisconnectsPerSec", "Lost connections", counts[SessionState.SUSPENDED])
    yield counter("ZooKeeperExpiresPerSec", "Expired sessions", counts[SessionState.LOST])
    back = counts[SessionState.CONNECTED] + counts[SessionState.RECONNECTED]
    yield counter("ZooKeeperSyncConnectsPerSec", "Connections established again", back)
