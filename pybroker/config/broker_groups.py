"""Broker settings: consumer groups, committed offsets and producer ids."""

from __future__ import annotations

from pybroker.config.setting_values import ConfigKey, ConfigType, Scope, at_least, items_of, one_of_any_case

INT, SHORT, LONG, LIST, STRING = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING

GROUPS = (
    ConfigKey(
        "group.min.session.timeout.ms",
        INT,
        6000,
        "Shortest session timeout that a group member may request, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        INT,
        1800000,
        "Longest session timeout that a group member may request, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "Time that an empty group waits for more members before its first assignment, in ms.",
        at_least(0),
    ),
    ConfigKey("group.max.size", INT, 2147483647, "Maximum number of members of a group.", at_least(1)),
    ConfigKey(
        "group.max.metadata.bytes",
        INT,
        4194304,
        (
            "Maximum bytes of metadata of a member: all protocols in JoinGroup, or the contents of heartbeats "
            "(pybroker's own setting)."
        ),
        at_least(1),
    ),
    ConfigKey(
        "group.max.metadata.bytes.total",
        LONG,
        134217728,
        (
            "Maximum bytes of all members that a broker coordinates: their metadata, their names and those of their "
            "groups, and 500 bytes for each. A member beyond it gets GROUP_MAX_SIZE_REACHED (pybroker's own setting)."
        ),
        at_least(1),
    ),
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        "Group protocols to serve: classic (JoinGroup and SyncGroup), consumer (KIP-848) and streams (KIP-1071).",
        items_of("classic", "consumer", "streams", empty=False),
    ),
)

CONSUMER_GROUPS = (
    ConfigKey(
        "group.consumer.session.timeout.ms",
        INT,
        45000,
        "Time without a heartbeat after which a member of a consumer group is removed, in ms.",
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
        "Heartbeat interval of members of consumer groups, in ms.",
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
        (
            "Heartbeat interval of a consumer group during a rebalance, in ms; limited to 500 heartbeats per "
            "second and group, and never longer than the usual interval."
        ),
        at_least(1),
    ),
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "Shortest time between two assignments of a consumer group, in ms; changes in between are assigned together.",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "Lower bound of consumer.assignment.interval.ms of a group, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15000,
        "Upper bound of consumer.assignment.interval.ms of a group, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.consumer.max.size", INT, 2147483647, "Maximum number of members of a consumer group.", at_least(1)
    ),
    ConfigKey(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "Assignors that members of consumer groups may choose; the first one is the default.",
        items_of("uniform", "range", empty=False),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        (
            "Protocol changes of groups with members: upgrade lets classic groups become consumer groups when a "
            "KIP-848 consumer joins, downgrade lets them return when the last one leaves, bidirectional allows "
            "both, disabled neither."
        ),
        one_of_any_case("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600000,
        (
            "Interval at which regular expressions of members are matched against topics again without a topic change, "
            "in ms, because permissions can change."
        ),
        at_least(10000),
        internal=True,
    ),
)

TELEMETRY = (
    ConfigKey(
        "telemetry.max.bytes",
        INT,
        1048576,
        "Maximum compressed bytes of metrics in one push of a client (KIP-714).",
        at_least(1),
    ),
)

OFFSETS = (
    ConfigKey(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of __consumer_offsets. Do not change it once the topic exists.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replicas of __consumer_offsets; 1 on a single node.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        INT,
        104857600,
        "Segment size of __consumer_offsets; a small value speeds up compaction and loading.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.minutes",
        INT,
        10080,
        (
            "Retention of committed offsets after their group became empty (without a group: after the commit), in "
            "minutes."
        ),
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        600000,
        "Interval of the check for expired offsets, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "Maximum length of the metadata text of a committed offset.",
        at_least(0),
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        INT,
        5242880,
        "Bytes per read when a coordinator loads its offsets.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "Longest time to wait for a commit to reach the disk, in ms.",
        at_least(1),
    ),
)
