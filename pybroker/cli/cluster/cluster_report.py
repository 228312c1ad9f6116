"""The state of a cluster, assembled from the reports of its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from pybroker.broker.admin.disk_room import USABLE_BYTES_MIN

if TYPE_CHECKING:
    from pybroker.client import AdminClient
    from pybroker.client.cluster_metadata import Node

ANSWER_SECONDS_MAX = 10.0
"""A broker that does not respond within this time is reported as silent."""

PARTITIONS_MAX = 10_000
"""Limit of listed partitions. The counts include all partitions."""


class BrokerReport(msgspec.Struct):
    """A broker that is registered, or that is not registered but has replicas."""

    broker: int
    broker_epoch: int | None = None
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    state: str = "running"
    """running, leaving, absent, or silent: registered but not responding."""
    leaders: int = 0
    replicas: int = 0
    store: str | None = None
    """State of the broker's session with the metadata store: connected, reconnected, suspended or lost."""
    controller: int | None = None
    """The controller in this broker's view."""
    offline_log_dirs: tuple[str, ...] = ()
    full_log_dirs: tuple[tuple[str, int, int], ...] = ()
    """Path, usable bytes and total bytes of each log directory whose disk is full."""


class DeletedReplicaRow(msgspec.Struct):
    """A broker's replica of a deleted topic. `size_bytes` is None if the broker did not report it."""

    broker: int
    partition: int
    state: str
    size_bytes: int | None


class DeletionReport(msgspec.Struct):
    """A deleted topic that still has data."""

    topic: str
    topic_id: str
    state: str
    deleted_ms: int
    deleted_by: str
    partitions: list[DeletedReplicaRow]


class WrongRole(msgspec.Struct):
    """A partition whose role on a broker differs from the metadata. `found`: the role that the broker reports, or the
    error in its response."""

    broker: int
    topic: str
    topic_id: Any
    partition: int
    found: str


class Report(msgspec.Struct):
    """The cluster. `state`: the response to DescribeClusterState from the broker with the most recent metadata; None if
    the brokers are not pybroker's and do not know the request."""

    cluster_id: str | None
    controller: int | None
    brokers: list[BrokerReport]
    state: Any = None
    deletions: list[DeletionReport] = []
    wrong_roles: list[WrongRole] = []
    quorum_views: dict[int, Any] = {}
    """The metadata quorum as each broker sees it; empty with a metadata store."""

    @property
    def quorum(self) -> Any:
        """The view of the quorum's leader, or that of another voter without a leader; None with a metadata store."""
        views = self.quorum_views.values()
        return max(views, key=lambda view: (view.role == "Leader", view.epoch), default=None)


class _BrokerResponses(msgspec.Struct):
    """The responses of one broker. A response is None if it timed out or the user is not authorized."""

    state: Any = None
    log_dirs: Any = None
    too_old: bool = False


async def collect(admin: AdminClient, *, leaders: bool = False) -> Report:
    """Query every broker; with `leaders`, also check that the leader of every partition leads it. Raises KafkaError if
    no broker responds, or if the user may not describe the cluster."""
    found = await admin.describe_cluster()
    nodes = sorted(found.nodes)
    answers = await asyncio.gather(*(_ask(admin, node) for node in nodes))
    responses = {node.id: answer for node, answer in zip(nodes, answers, strict=True)}
    controller = None if found.controller is None else found.controller.id
    states = [answer.state for answer in responses.values() if answer.state is not None]
    if not states:
        return Report(found.cluster_id, controller, [_basics(node) for node in nodes])
    # Prefer the controller's response. A former controller that is cut off from the other brokers has an older epoch.
    best = max(states, key=lambda one: (one.controller_epoch, one.broker_id == one.controller_id))
    # Brokers may still know a dead controller until another one is elected.
    responds = best.controller_id in {state.broker_id for state in states}
    informed = best.controller_id if responds else best.broker_id
    return Report(
        found.cluster_id,
        best.controller_id if best.controller_id >= 0 else None,
        _brokers(best, nodes, responses),
        best,
        await _deletions(admin, best.broker_id),
        [*_wrong_roles(responses), *(await _not_led(admin, informed) if leaders else ())],
        {state.broker_id: view for state in states for view in state.quorum},
    )


async def _ask(admin: AdminClient, node: Node) -> _BrokerResponses:
    from pybroker.client.client_errors import KafkaError, UnsupportedVersionError, broker_error
    from pybroker.protocol import messages as m
    from pybroker.protocol.error_codes import ErrorCode

    answer = _BrokerResponses()
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer.state = await admin.send(m.DescribeClusterStateRequest(partitions_max=PARTITIONS_MAX), node=node.id)
            if answer.state.error_code:
                raise broker_error(answer.state.error_code, about="the state of the cluster")
            answer.log_dirs = await admin.send(m.DescribeLogDirsRequest(topics=[]), node=node.id)
    except UnsupportedVersionError:
        answer.too_old = answer.state is None
    except (KafkaError, TimeoutError, OSError) as error:
        if isinstance(error, KafkaError) and error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        answer.state = None
    return answer


def _wrong_roles(responses: dict[int, _BrokerResponses]) -> list[WrongRole]:
    return [
        WrongRole(broker, row.name, row.topic_id, row.partition_index, row.found)
        for broker, answer in sorted(responses.items())
        if answer.state is not None
        for row in answer.state.wrong_roles
    ]


async def _not_led(admin: AdminClient, informed: int) -> list[WrongRole]:
    from pybroker.cli.cluster.leaders import find_not_led
    from pybroker.protocol.error_codes import error_name

    return [
        WrongRole(led.leader, led.topic, led.topic_id, led.partition, f"leads but answers {error_name(code)}")
        for led, code in await find_not_led(admin, informed)
    ]


def _basics(node: Node) -> BrokerReport:
    return BrokerReport(node.id, None, node.host, node.port, node.rack)


def _brokers(best: Any, nodes: Iterable[Node], responses: dict[int, _BrokerResponses]) -> list[BrokerReport]:
    reports = {node.id: _basics(node) for node in nodes}
    for row in best.brokers:
        report = reports.setdefault(row.broker_id, BrokerReport(row.broker_id))
        report.broker_epoch = row.broker_epoch if row.broker_epoch >= 0 else None
        report.rack = row.rack or report.rack
        report.leaders, report.replicas = row.leaders, row.replicas
        if row.broker_epoch < 0:
            report.state = "absent"
        elif row.leaving:
            report.state = "leaving"
    for broker, answer in responses.items():
        report = reports[broker]
        if answer.state is None:
            if report.state == "running" and not answer.too_old:
                report.state = "silent"
            continue
        report.store, report.controller = answer.state.store_session, answer.state.controller_id
        if answer.log_dirs is not None:
            report.offline_log_dirs = tuple(row.log_dir for row in answer.log_dirs.results if row.error_code)
            report.full_log_dirs = tuple(
                (row.log_dir, row.usable_bytes, row.total_bytes)
                for row in answer.log_dirs.results
                if not row.error_code and 0 <= row.usable_bytes < USABLE_BYTES_MIN
            )
    return [report for _, report in sorted(reports.items())]


async def _deletions(admin: AdminClient, broker: int) -> list[DeletionReport]:
    """Return the deletions that one broker reports. This broker queries the other brokers for their data."""
    from pybroker.client.client_errors import KafkaError, UnsupportedVersionError
    from pybroker.protocol import messages as m

    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await admin.send(m.DescribeDeletionsRequest(topics=None), node=broker)
    except (UnsupportedVersionError, KafkaError, TimeoutError, OSError):
        return []
    found = [
        DeletionReport(
            row.name,
            str(row.topic_id),
            row.state,
            row.deleted_ms,
            row.deleted_by,
            [
                DeletedReplicaRow(
                    part.broker_id,
                    part.partition_index,
                    part.state,
                    None if part.size_bytes < 0 else part.size_bytes,
                )
                for part in sorted(row.partitions, key=lambda part: (part.broker_id, part.partition_index))
            ],
        )
        for row in answer.deletions
    ]
    return sorted(found, key=lambda each: (each.topic, each.topic_id))
