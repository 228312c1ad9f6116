"""Requests that are seldom sent: client names, producer ids, filters of lists, settings of unknown kinds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.test_administration import NAMES, creating, new
from tests.against_kafka.test_transactions import NOBODY, add, begun, end, init

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def api_versions(side: Side, name: str) -> None:
    """Each broker has its own APIs and features. Names of more than 256 bytes are not compared, because pybroker
    refuses them."""
    for version in (0, 3, 4, 5):
        for client in ("", "a", "-a", "a-", ".a", "a.b-c", "a b", "ä", "a/b", "a_b", "x" * 256):
            for software in ("1", "", "1.0-SNAPSHOT", " ", "-", "v1_2"):
                side.ask(
                    m.ApiVersionsRequest(client_software_name=client, client_software_version=software),
                    version,
                    but=("api_keys", "supported_features", "finalized_features", "finalized_features_epoch"),
                )


def producer_ids(side: Side, name: str) -> None:
    """Two-phase commit is not compared, because pybroker does not have it yet."""
    for timeout_ms in (-(2**31), -1, 0, 1, 899_999, 900_000, 900_001, 2**31 - 1):
        for version in (0, 3, 5):
            # A producer id without a transactional id has no timeout.
            side.ask(init(None, timeout_ms=timeout_ms), version)
            side.ask(init(f"{name}-{timeout_ms}-{version}", timeout_ms=timeout_ms), version)
    me = begun(side, f"{name}-me")
    for version in (3, 4, 5):
        for producer in ((-1, -1), (-2, -1), (-1, -2), (-1, 0), (0, -1), (5, -1), (NOBODY, 0), (NOBODY, 2**15 - 1)):
            side.ask(init(f"{name}-new-{producer[0]}-{producer[1]}-{version}", producer), version)
            side.ask(init(None, producer), version)
            if producer != (-1, -1):
                side.ask(init(f"{name}-me", producer), version)
        for epoch in (-1, -2, me[1] + 1, me[1] + 5, 2**15 - 1):
            side.ask(init(f"{name}-me", (me[0], epoch)), version)
    for transactional in ("x" * 300, " ", "a/b", "ä"):
        side.ask(init(transactional), 5)


def transactions(side: Side, name: str) -> None:
    """Filters by duration are not compared for transactional ids without an open transaction: Kafka lists them as if
    their transaction had begun in 1970."""
    side.topic(name, 1)
    me = begun(side, f"{name}-open")
    side.ask(add(f"{name}-open", me, name, 0), 3)
    other = begun(side, f"{name}-empty")

    def lists(version: int, **filters: object) -> None:
        answer = side.quietly(m.ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]
        # Other names belong to other stories.
        answer.transaction_states = [one for one in answer.transaction_states if one.transactional_id.startswith(name)]
        side.note(f"ListTransactions {filters} version {version}".replace(str(me[0]), "me"), answer)

    for version in (0, 1, 2):
        for states in ([], ["Ongoing"], ["Empty"], ["ongoing"], ["Ongoing", "Ongoing"], ["NoSuch", "Empty"], ["", " "]):
            lists(version, state_filters=states)
        for ids in ([], [me[0]], [me[0], other[0]], [me[0], me[0]], [-1], [NOBODY]):
            lists(version, producer_id_filters=ids)
    for duration in (-2, -1, 0, 1, 10**9, 2**62, 2**63 - 1, -(2**63)):
        lists(1, duration_filter=duration, state_filters=["Ongoing"])
    for pattern in (
        None,
        "",
        ".*",
        name,
        f"{name}.*",
        f"{name}-op",
        f"^{name}-open$",
        ".*open",
        "[",
        "(",
        "*",
        "a{2,1}",
    ):
        lists(2, transactional_id_pattern=pattern)
    lists(2, state_filters=["NoSuch"], transactional_id_pattern="[")
    for transactional in (f"{name}-open", f"{name}-no-such", f"{name}-empty", "x" * 300):
        side.ask(m.DescribeTransactionsRequest(transactional_ids=[transactional]), 0)
    rows = m.DescribeProducersRequest_TopicRequest
    for partitions in ([0], [0, 9], [-1], []):
        asked = [rows(name=name, partition_indexes=partitions)]
        side.ask(m.DescribeProducersRequest(topics=asked), 0, but=("coordinator_epoch",))
    side.ask(end(f"{name}-open", me), 3)


def configs(side: Side, name: str) -> None:
    """Lists of client metrics subscriptions with APPEND and SUBTRACT are not compared, because only pybroker changes
    them that way. Neither are invalid numbers and digits of other scripts, which only Kafka accepts. Kafka refuses to
    append nothing to a list of words."""
    side.topic(name, 1)

    def alter(kind: int, resource: str, *changes: tuple[str, int, str | None], validate: bool = False) -> None:
        side.ask(m.IncrementalAlterConfigsRequest(resources=[of(kind, resource, *changes)], validate_only=validate), 1)

    def of(
        kind: int, resource: str, *changes: tuple[str, int, str | None]
    ) -> m.IncrementalAlterConfigsRequest_AlterConfigsResource:
        rows = [
            m.IncrementalAlterConfigsRequest_AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        return m.IncrementalAlterConfigsRequest_AlterConfigsResource(
            resource_type=kind, resource_name=resource, configs=rows
        )

    for validate in (True, False):
        for operation in (SET, DELETE, APPEND, SUBTRACT):
            for value in (None, "", "1", "compact", "delete,compact", " compact", "compact,compact", "x"):
                if (operation, value) != (APPEND, ""):
                    alter(TOPIC, name, ("cleanup.policy", operation, value), validate=validate)
                alter(TOPIC, name, ("retention.ms", operation, value), validate=validate)
                alter(TOPIC, name, ("segment.bytes", operation, value), validate=validate)
                alter(TOPIC, name, ("compression.type", operation, value), validate=validate)
                alter(TOPIC, name, ("unclean.leader.election.enable", operation, value), validate=validate)
                alter(TOPIC, name, ("leader.replication.throttled.replicas", operation, value), validate=validate)
                alter(GROUP, name, ("consumer.session.timeout.ms", operation, value), validate=validate)
                alter(CLIENT_METRICS, name, ("interval.ms", operation, value), validate=validate)
                if operation < APPEND:
                    alter(CLIENT_METRICS, name, ("metrics", operation, value), validate=validate)
                    alter(CLIENT_METRICS, name, ("match", operation, value), validate=validate)
        side.settled(name)
        for key, value in (
            ("retention.ms", "-1"),
            ("retention.ms", "-2"),
            ("retention.bytes", "-2"),
            ("segment.ms", "0"),
            ("segment.bytes", "13"),
            ("max.message.bytes", "-1"),
            ("min.cleanable.dirty.ratio", "1.1"),
            ("min.insync.replicas", "99"),
            ("message.timestamp.type", "createtime"),
            ("compression.type", "ZSTD"),
            ("compression.gzip.level", "10"),
            ("compression.zstd.level", "-131073"),
            ("preallocate", "yes"),
            ("preallocate", "TRUE"),
            ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "0:1,x"),
            ("flush.ms", str(2**63)),
            ("flush.ms", "0x10"),
            ("flush.ms", "1e3"),
            ("flush.ms", "+5"),
            ("index.interval.bytes", "-1"),
        ):
            alter(TOPIC, name, (key, SET, value), validate=validate)
        for key, value in (
            ("consumer.session.timeout.ms", "1"),
            ("consumer.heartbeat.interval.ms", "999999"),
            ("share.auto.offset.reset", "never"),
            ("share.auto.offset.reset", "by_duration:P1D"),
            ("share.auto.offset.reset", "by_duration:-P1D"),
            ("share.isolation.level", "read"),
            ("no.such", "1"),
            ("", "1"),
        ):
            alter(GROUP, name, (key, SET, value), validate=validate)
        for key, value in (
            ("interval.ms", "99"),
            ("interval.ms", "3600001"),
            ("metrics", "*,a"),
            ("match", "client_id=["),
            ("match", "no_such=x"),
            ("match", "client_id"),
            ("match", "client_id=a,client_id=b"),
            ("no.such", "1"),
        ):
            alter(CLIENT_METRICS, name, (key, SET, value), validate=validate)
        for kind in (TOPIC, GROUP, CLIENT_METRICS):
            alter(kind, "", ("retention.ms", SET, "5"), validate=validate)
            alter(kind, name, validate=validate)
            alter(kind, name, ("interval.ms", SET, "500"), ("interval.ms", SET, "600"), validate=validate)
        for level in ("INFO", "info", "NONE", "", None):
            for logger in ("no.such.logger", ""):
                for operation in (SET, DELETE, APPEND, SUBTRACT):
                    alter(LOGGER, "1", (logger, operation, level), validate=True)
        alter(LOGGER, "", ("root", SET, "INFO"), validate=validate)
        alter(LOGGER, "99", ("root", SET, "INFO"), validate=validate)
        alter(LOGGER, "x", ("root", SET, "INFO"), validate=validate)
    one, wrong = of(TOPIC, name, ("retention.ms", SET, "7")), of(TOPIC, "not-" + name, ("retention.ms", SET, "7"))
    side.ask(m.IncrementalAlterConfigsRequest(resources=[one, wrong]), 1)
    side.ask(m.IncrementalAlterConfigsRequest(resources=[wrong, of(TOPIC, name, ("retention.ms", SET, "x"))]), 1)
    side.settled(name)
    for kind in (TOPIC, GROUP, CLIENT_METRICS):
        for keys in (None, [], ["no.such"]):
            resource = m.DescribeConfigsRequest_DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            answer = side.quietly(m.DescribeConfigsRequest(resources=[resource]), 4)
            own = [
                (row.name, row.value) for one in answer.results for row in one.configs if row.config_source in (1, 7, 8)
            ]
            side.note(f"configs of {kind} {keys}", [str(answer.results[0].error_code), *map(str, sorted(own))])
    for version in (0, 1):
        for kinds in ([], [CLIENT_METRICS], [GROUP], [GROUP, GROUP], [TOPIC, GROUP], [0], [1], [99], [-1], [GROUP, 99]):
            answer = side.quietly(m.ListConfigResourcesRequest(resource_types=kinds), version)
            answer.config_resources = [one for one in answer.config_resources if one.resource_name == name]
            side.note(f"ListConfigResources {kinds} version {version}", answer)
    for key in ("consumer.session.timeout.ms", "share.auto.offset.reset", "consumer.heartbeat.interval.ms"):
        alter(GROUP, name, (key, DELETE, None))
    for key in ("interval.ms", "metrics", "match"):
        alter(CLIENT_METRICS, name, (key, DELETE, None))


def broker_removals(side: Side, name: str) -> None:
    """Remove settings that are not set, that belong to one broker, or that do not exist."""
    for key in (
        "no.such.config",
        "",
        "log.retention.ms",
        "max.connections.per.ip.overrides",
        "ssl.keystore.location",
        "broker.id",
    ):
        for value in (None, "", "1", "x"):
            for resource in ("", "1"):
                for validate in (True, False):
                    row = m.IncrementalAlterConfigsRequest_AlterableConfig(
                        name=key, config_operation=DELETE, value=value
                    )
                    changed = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                        resource_type=BROKER, resource_name=resource, configs=[row]
                    )
                    side.ask(m.IncrementalAlterConfigsRequest(resources=[changed], validate_only=validate), 1)


def partitions(side: Side, name: str) -> None:
    """Requests that test_administration.py does not send: several partitions, one of them wrong."""
    side.topic(name, 2)
    (own,) = {broker.node_id for broker in side.quietly(m.MetadataRequest(topics=[]), 12).brokers}
    for assigned in (
        {0: [own], 1: [own]},
        {1: [own], 0: [own]},
        {0: [own], 1: []},
        {0: [own], 1: [own, own]},
        {0: [own], 1: [own + 9]},
        {0: [own], 3: [own]},
        {2**31 - 1: [own]},
    ):
        for count, replicas in ((-1, -1), (2, -1), (-1, 1), (2, 1), (0, 0)):
            shape = new(f"{name}-{len(side.answers)}", count, replicas, assigned)
            side.ask(creating(shape, validate=True), 7, but=("configs", "topic_id"))
    for topic in ("...", "__consumer_offsets", "__share_group_state", f"{name}.x", "-", "_", "A" * 249):
        side.ask(creating(new(topic), validate=True), 7, but=("configs", "topic_id"))
    side.ask(creating(new(f"{name}.dot_dash")), 7, but=("configs",))
    side.settled(name)
    side.ask(creating(new(f"{name}_dot.dash")), 7, but=("configs",))
    moved = m.AlterPartitionReassignmentsRequest_ReassignableTopic
    part = m.AlterPartitionReassignmentsRequest_ReassignablePartition
    for rows in (
        [moved(name=name, partitions=[])],
        [
            moved(
                name=name, partitions=[part(partition_index=0, replicas=[own]), part(partition_index=9, replicas=[own])]
            )
        ],
        [
            moved(
                name=name, partitions=[part(partition_index=0, replicas=None), part(partition_index=1, replicas=[own])]
            )
        ],
        [moved(name="", partitions=[part(partition_index=0, replicas=None)])],
    ):
        for allowed in (True, False):
            request = m.AlterPartitionReassignmentsRequest(topics=rows, timeout_ms=5_000)
            request.allow_replication_factor_change = allowed
            side.ask(request, 1)
    elected = m.ElectLeadersRequest_TopicPartitions
    for chosen in (
        [elected(topic=name, partitions=[0, 1])],
        [elected(topic=name, partitions=[])],
        [elected(topic=name, partitions=[0, 9])],
        [elected(topic="not-" + name, partitions=[0]), elected(topic=name, partitions=[1])],
    ):
        for kind in (0, 1, 2, -1):
            for version in (1, 2):
                side.ask(m.ElectLeadersRequest(election_type=kind, topic_partitions=chosen, timeout_ms=5_000), version)
    row, wanted = m.DeleteRecordsRequest_DeleteRecordsTopic, m.DeleteRecordsRequest_DeleteRecordsPartition
    for deletions in (
        [],
        [row(name=name, partitions=[])],
        *([row(name=name, partitions=[wanted(0, offset)])] for offset in (-1, 0, 1, -2, -(2**63), 2**63 - 1)),
        [row(name=name, partitions=[wanted(0, 0), wanted(9, 0), wanted(-1, 0), wanted(1, 0)])],
        *([row(name=wrong, partitions=[wanted(0, 0)])] for wrong in (*NAMES, "not-" + name)),
    ):
        for timeout_ms in (5_000, 0, -1):
            side.ask(m.DeleteRecordsRequest(topics=deletions, timeout_ms=timeout_ms), 2)
    for endpoint in (0, 1, 2, 3, -1):
        for fenced in (False, True):
            for authorized in (False, True):
                side.ask(
                    m.DescribeClusterRequest(
                        endpoint_type=endpoint,
                        include_fenced_brokers=fenced,
                        include_cluster_authorized_operations=authorized,
                    ),
                    2,
                    but=("brokers", "cluster_id", "controller_id"),
                )


@pytest.mark.parametrize("story", [api_versions, producer_ids, transactions, configs, broker_removals, partitions])
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
