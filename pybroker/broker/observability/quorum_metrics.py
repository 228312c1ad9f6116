"""The metadata quorum, under Kafka's names: `kafka.server:type=raft-metrics` and `type=MetadataLoader`.

As in Kafka, only the leader knows the observers. `commit-latency-avg` is a count and a sum of milliseconds here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pybroker.broker.observability.metric import Metric
from pybroker.broker.services import Services
from pybroker.native_quorum import QuorumStatus
from pybroker.wall_clock import wall_ms

ROLES = ("Leader", "Follower", "Candidate", "Prospective", "Unattached", "Resigned", "Halted")
"""As in Kafka, a broker that does not vote is an observer instead of a follower."""
AWAY_MS = 5_000
"""Milliseconds without a fetch after which a voter counts as offline."""

_RAFT = "kafka_server_raft_metrics"
_LOADER = "kafka_server_metadataloader"


def quorum_metrics(services: Services) -> Iterator[Metric]:
    """Yield all metrics; without a metadata quorum there are none."""
    timer = services.figures.commits
    if services.cluster_state.quorum is None or timer is None:
        return
    status = services.cluster_state.quorum()
    votes = any(voter.node_id == services.broker_id for voter in status.voters)
    now = "observer" if status.role == "Follower" and not votes else status.role.lower()
    text = "1 for the state of this broker's node in the metadata quorum, 0 for the others (Kafka: current-state)."
    for state in (*(role.lower() for role in ROLES), "observer"):
        yield Metric(f"{_RAFT}_current_state", text, partial(int, state == now), {"state": state})
    leads = status.role == "Leader"
    yield _raft("current-leader", "Leader of the metadata quorum; -1: none is known", _or_none(status.leader))
    yield _raft("current-epoch", "Epoch of the metadata quorum", status.epoch)
    yield _raft("high-watermark", "Offset below which the metadata log is committed", status.high_watermark)
    yield _raft("log-end-offset", "End of this broker's metadata log", status.log_end)
    yield _raft("number-of-voters", "Voters of the metadata quorum", len(status.voters))
    observers = len(status.observers) if leads else 0
    yield _raft("number-of-observers", "Brokers that follow the metadata log and do not vote; 0 elsewhere", observers)
    name = f"{_RAFT}_commit_latency_ms"
    text = (
        "Time until a change of the metadata is on a majority of the voters, where this broker leads: count and total "
        "milliseconds (Kafka: commit-latency-avg)."
    )
    yield Metric(name, text, lambda: timer.count, kind="summary", suffix="_count")
    yield Metric(name, text, lambda: timer.total_ms, kind="summary", suffix="_sum")
    level = services.view.image.features.metadata_version
    yield Metric(
        f"{_LOADER}_currentmetadataversion",
        "Level of metadata.version (Kafka: CurrentMetadataVersion).",
        lambda: _or_none(level),
    )
    yield Metric(
        "pybroker_quorum_voters_away",
        f"Voters that have not fetched for {AWAY_MS // 1000} s; 0 where this broker does not lead the quorum.",
        lambda: _away(status) if leads else 0,
    )


def _raft(kafkas: str, what: str, value: float) -> Metric:
    return Metric(f"{_RAFT}_{kafkas.replace('-', '_')}", f"{what} (Kafka: {kafkas}).", lambda: value)


def _or_none(value: int | None) -> int:
    return -1 if value is None else value


def _away(status: QuorumStatus) -> int:
    now_ms = wall_ms()
    others = (voter for voter in status.voters if voter.node_id != status.leader)
    return sum(voter.fetched_ms < now_ms - AWAY_MS for voter in others)
