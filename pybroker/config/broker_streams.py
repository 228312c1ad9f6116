"""Broker settings: streams groups (KIP-1071)."""


from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, Scope, at_least, items_of, unlike

INT, LONG, LIST = ConfigType.INT, ConfigType.LONG, ConfigType.LIST

STREAMS_GROUPS = (
    ConfigKey(
        "group.streams.session.timeout.ms",
        INT,
        45000,
        "How long a member of a streams group may be silent before it is removed, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.min.session.timeout.ms",
        INT,
        45000,
        "Shortest session timeout of a streams group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.max.session.timeout.ms",
        INT,
        60000,
        "Longest session timeout of a streams group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.heartbeat.interval.ms",
        INT,
        5000,
        "How often members of streams groups are told to heartbeat, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        "Shortest heartbeat interval of a streams group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15000,
        "Longest heartbeat interval of a streams group, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.max.size",
        INT,
        2147483647,
        "Most members of one streams group.",
        at_least(1),
    ),
    ConfigKey(
        "group.streams.num.standby.replicas",
        INT,
        0,
        "Copies of the state of each task, beside the active one.",
        at_least(0),
    ),
    ConfigKey(
        "group.streams.max.standby.replicas",
        INT,
        2,
        "Most such copies that a streams group may set.",
        at_least(0),
    ),
    ConfigKey(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long an empty streams group waits for further members before its first assignment, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        "Shortest time between two assignments of a streams group, in ms: what changes meanwhile is assigned together.",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        "Shortest such time that a streams group may set, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.streams.max.assignment.interval.ms",
        INT,
        15000,
        "Longest such time that a streams group may set, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "group.streams.assignors",
        LIST,
        ("sticky",),
        "Assignors of tasks that streams groups may ask for; one that asks for none gets the first one.",
        items_of("sticky", empty=False),
    ),
    ConfigKey(
        "group.streams.rack.aware.assignment.tags",
        LIST,
        (),
        "Tags that members of streams groups are asked for (client.tag.…); standbys are not spread by them.",
        unlike,
    ),
    ConfigKey(
        "group.streams.task.offset.interval.ms",
        INT,
        60000,
        "How often members of streams groups tell how far their copies of tasks' state go, in ms.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        "group.streams.min.task.offset.interval.ms",
        INT,
        15000,
        "Shortest such time that a streams group may set, in ms.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        "group.streams.num.warmup.replicas",
        INT,
        2,
        "Most warm-up tasks. Taken and told, without effect: as in Kafka 4.4, tasks move without warming up.",
        at_least(0),
        internal=True,
    ),
    ConfigKey(
        "group.streams.max.warmup.replicas",
        INT,
        20,
        "Most warm-up tasks that a streams group may set.",
        at_least(0),
        internal=True,
    ),
    ConfigKey(
        "group.streams.acceptable.recovery.lag",
        LONG,
        10000,
        "How far the copy of a task's state may be behind to count as caught up, in records; told to members.",
        at_least(0),
        internal=True,
    ),
)
