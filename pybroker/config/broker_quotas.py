"""Broker settings of client quotas: the windows in which usage is measured (KIP-13, KIP-599)."""


from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, between

INT = ConfigType.INT

QUOTAS = (
    ConfigKey(
        "quota.window.num",
        INT,
        11,
        (
            "Number of time windows over which client quotas are measured, including the current one. A client may use "
            "the quota of all other windows in one burst."
        ),
        between(1, 1000),
    ),
    ConfigKey("quota.window.size.seconds", INT, 1, "Length of a quota window, in seconds.", between(1, 3600)),
    ConfigKey(
        "controller.quota.window.num",
        INT,
        11,
        (
            "Number of time windows whose quota of created and deleted partitions may be used in one burst "
            "(controller_mutation_rate)."
        ),
        between(1, 1000),
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "Length of a controller_mutation_rate window, in seconds.",
        between(1, 3600),
    ),
)
