"""Broker settings that a request may name: those of the table, and TLS settings of one listener
(`listener.name.<listener>.ssl.…`, KIP-226)."""

from __future__ import annotations

import msgspec

from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.broker_tls import BY_NAME as TLS
from pybroker.config.listener_settings import listener_setting
from pybroker.config.values import ConfigKey, Scope


def broker_key(name: str) -> ConfigKey | None:
    """Return the table row for a setting's name in a request; None for unknown ones, and for listener settings that are
    not dynamic.
    """
    if name in BROKER_SETTINGS:
        return BROKER_SETTINGS[name]
    setting = listener_setting(name)
    if setting is None or setting.mechanism is not None or setting.name not in TLS:
        return None
    key = TLS[setting.name]
    return None if key.scope is Scope.READ_ONLY else msgspec.structs.replace(key, name=name)
