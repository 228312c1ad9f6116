"""Broker settings: consumer groups, committed offsets and producer ids."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, Scope, at_least, items_of, one_of_any_case

INT, SHORT, LONG, LIST, STRING = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING

GROUPS = (
    ConfigKey(
        "group.min.session.timeout.ms",
        INT,
        6000,
        "Shortest session timeout a group member may ask for, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        INT,
        1800000,
        "Longest session timeout a group member may ask for, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long an empty group waits for further members before its first assignment, in ms.",
        at_least(0),
    ),
    ConfigKey("group.max.size", INT, 2147483647, "Most members of one group.", at_least(1)),
    ConfigKey(
        "group.max.metadata.bytes",
        INT,
        4194304,
        "Most bytes of metadata of one member: over all protocols that it names in JoinGroup, or what it says in heartbeats (pybroker's own setting).",
        at_least(1),
    ),
    ConfigKey(
        "group.max.metadata.bytes.total",
        LONG,
        134217728,
        "Most bytes of metadata of all members that one broker coordinates; beyond, a member that brings more is answered GROUP_MAX_SIZE_REACHED (pybroker's own setting).",
        at_least(1),
    ),
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        "Group protocols that are served: classic (JoinGroup and SyncGroup), consumer (KIP-848) and streams (KIP-1071).",
        items_of("classic", "consumer", "streams", empty=False),
    ),
)

CONSUMER_GROUPS = (
    ConfigKey(
        "group.consumer.session.timeout.ms",
        INT,
        45000,
        "How long a member of a consumer group may be silent before it is removed, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.min.session.timeout.ms",
        INT,
        45000,
        "Shortest session timeout of a consumer group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.max.session.timeout.ms",
        INT,
        60000,
        "Longest session timeout of a consumer group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "How often members of consumer groups are told to heartbeat, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "Shortest heartbeat interval of a consumer group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15000,
        "Longest heartbeat interval of a consumer group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.rebalance.heartbeat.interval.ms",
        INT,
        200,
        "How often members of a consumer group are told to heartbeat while it rebalances, in ms; no more than 500 a second of one group, and never less often than otherwise.",
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "Shortest time between two assignments of a consumer group, in ms: what changes meanwhile is assigned together.",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "Shortest such time that a consumer group may set, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15000,
        "Longest such time that a consumer group may set, in ms.",
        at_least(0),
    ),
    ConfigKey("group.consumer.max.size", INT, 2147483647, "Most members of one consumer group.", at_least(1)),
    ConfigKey(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "Assignors that members of consumer groups may ask for; who asks for none gets the first one.",
        items_of("uniform", "range", empty=False),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether groups with members change their protocol: upgrade lets classic groups become consumer groups when a consumer of the newer protocol joins, downgrade lets them return when the last one has left, bidirectional both, disabled neither.",
        one_of_any_case("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600000,
        "How often it is looked anew which topics the members' regular expressions match although no topic changed, in ms: what a member may read can change.",
        at_least(10000),
        internal=True,
    ),
)

TELEMETRY = (
    ConfigKey(
        "telemetry.max.bytes",
        INT,
        1048576,
        "Most bytes of metrics, compressed, that a client may push at once (KIP-714).",
        at_least(1),
    ),
)

OFFSETS = (
    ConfigKey(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of __consumer_offsets. It must not change once the topic exists.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replicas of __consumer_offsets; one node holds one.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        INT,
        104857600,
        "Segment size of __consumer_offsets; small, so that it compacts and loads quickly.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.minutes",
        INT,
        10080,
        "How long committed offsets are kept once a group is empty (or, without a group, after the commit), in minutes.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        600000,
        "How often expired offsets are looked for, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "Largest text that may go with a committed offset.",
        at_least(0),
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        INT,
        5242880,
        "Bytes that are read at a time when a coordinator loads its offsets.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "Longest time a commit waits until it is on disk, in ms.",
        at_least(1),
    ),
)
