"""Broker settings of client quotas: the windows in which usage is measured (KIP-13, KIP-599)."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, between

INT = ConfigType.INT

QUOTAS = (
    ConfigKey(
        "quota.window.num",
        INT,
        11,
        "Windows of time over which clients' use is measured, the present one among them: what all others together may bring can come at once.",
        between(1, 1000),
    ),
    ConfigKey("quota.window.size.seconds", INT, 1, "Length of each of these windows, in seconds.", between(1, 3600)),
    ConfigKey(
        "controller.quota.window.num",
        INT,
        11,
        "Windows of time whose partitions may be made and removed at once (controller_mutation_rate).",
        between(1, 1000),
    ),
    ConfigKey(
        "controller.quota.window.size.seconds", INT, 1, "Length of each of these windows, in seconds.", between(1, 3600)
    ),
)
