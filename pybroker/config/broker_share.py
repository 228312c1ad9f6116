"""Broker settings: share groups (KIP-932) and where their state is kept."""


from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, Scope, at_least, between

BOOLEAN, INT, SHORT, STRING = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.SHORT, ConfigType.STRING

SHARE_GROUPS = (
    ConfigKey(
        "group.share.session.timeout.ms",
        INT,
        45000,
        "How long a member of a share group may be silent before it is removed, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.min.session.timeout.ms",
        INT,
        45000,
        "Shortest session timeout of a share group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.max.session.timeout.ms",
        INT,
        60000,
        "Longest session timeout of a share group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.heartbeat.interval.ms",
        INT,
        5000,
        "How often members of share groups are told to heartbeat, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.min.heartbeat.interval.ms",
        INT,
        5000,
        "Shortest heartbeat interval of a share group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.max.heartbeat.interval.ms",
        INT,
        15000,
        "Longest heartbeat interval of a share group, in ms.",
        at_least(1),
    ),
    ConfigKey("group.share.max.size", INT, 200, "Most members of one share group.", between(1, 1000)),
    ConfigKey(
        "group.share.max.share.sessions",
        INT,
        2000,
        "Most share sessions of this broker: members of share groups that read from it.",
        at_least(1),
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.name.prefix",
        STRING,
        "dlq.",
        "What the names of topics begin with that may be dead letter queues of share groups.",
        None,
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "errors.deadletterqueue.auto.create.topics.enable",
        BOOLEAN,
        False,
        "Whether the topic is made that a share group names as its dead letter queue.",
        None,
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.share.delivery.count.limit",
        INT,
        5,
        "How often a record is given to members of a share group before it is archived.",
        between(2, 10),
    ),
    ConfigKey(
        "group.share.min.delivery.count.limit",
        INT,
        2,
        "Smallest such number that a share group may set.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.max.delivery.count.limit",
        INT,
        10,
        "Largest such number that a share group may set.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.partition.max.record.locks",
        INT,
        2000,
        "Most records of a partition that are in flight for one share group.",
        between(100, 10000),
    ),
    ConfigKey(
        "group.share.min.partition.max.record.locks",
        INT,
        100,
        "Smallest such number that a share group may set.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.max.partition.max.record.locks",
        INT,
        4000,
        "Largest such number that a share group may set.",
        at_least(1),
    ),
    ConfigKey(
        "group.share.record.lock.duration.ms",
        INT,
        30000,
        "How long a record that a member has acquired is kept from others, in ms.",
        between(1000, 3600000),
    ),
    ConfigKey(
        "group.share.min.record.lock.duration.ms",
        INT,
        15000,
        "Shortest such time that a share group may set, in ms.",
        between(1000, 30000),
    ),
    ConfigKey(
        "group.share.max.record.lock.duration.ms",
        INT,
        60000,
        "Longest such time that a share group may set, in ms.",
        between(30000, 3600000),
    ),
)

SHARE_COORDINATOR = (
    ConfigKey(
        "share.coordinator.state.topic.num.partitions",
        INT,
        50,
        "Partitions of __share_group_state. It must not change once the topic exists.",
        at_least(1),
    ),
    ConfigKey(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        3,
        "Replicas of __share_group_state; one node holds one.",
        at_least(1),
    ),
    ConfigKey(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        2,
        "min.insync.replicas of __share_group_state; of one node it is one.",
        at_least(1),
    ),
    ConfigKey(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        104857600,
        "Segment size of __share_group_state; small, so that it is pruned and loads quickly.",
        at_least(1),
    ),
    ConfigKey(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        300000,
        "How often the beginning of __share_group_state is deleted that nobody needs, in ms.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        500,
        "Changes of a share group's state in a partition that are stored before the whole of it is.",
        between(0, 500),
    ),
    ConfigKey(
        "share.coordinator.load.buffer.size",
        INT,
        5242880,
        "Bytes that are read at a time when a coordinator loads the states of share groups.",
        at_least(1),
    ),
)
