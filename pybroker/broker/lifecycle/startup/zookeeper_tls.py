"""Keystore and truststore of a TLS connection to ZooKeeper. kazoo reads PEM files for each connection. This module
reads stores of other formats once, at the start, and keeps them in memory as PEM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.config import BrokerConfig
from pybroker.config.memory_file import MemoryFile
from pybroker.config.setting_values import InvalidValue
from pybroker.config.stores import PEM, StoreFile
from pybroker.errors import StartError

if TYPE_CHECKING:
    from pybroker.broker.metadata.zookeeper_store import Tls


def zookeeper_tls(config: BrokerConfig) -> Tls | None:
    """Return None if `zookeeper.ssl.client.enable` is off. Raises StartError, which names the setting and the file, if
    a file is unusable.
    """
    from pybroker.broker.metadata.zookeeper_store import Tls

    if not config["zookeeper.ssl.client.enable"]:
        return None
    verify = bool(config["zookeeper.ssl.endpoint.identification.algorithm"])
    truststore, keystore = config["zookeeper.ssl.truststore.location"], config["zookeeper.ssl.keystore.location"]
    password = config["zookeeper.ssl.keystore.password"]
    try:
        if truststore is not None and not _is_pem(truststore, config["zookeeper.ssl.truststore.type"]):
            store = _store(config, "truststore", truststore, config["zookeeper.ssl.truststore.password"])
            truststore = MemoryFile(store.trusted()).path
        if keystore is not None and not _is_pem(keystore, config["zookeeper.ssl.keystore.type"]):
            keystore, password = MemoryFile(_store(config, "keystore", keystore, password).identity(None)).path, None
    except InvalidValue as problem:
        raise StartError(str(problem)) from None
    return Tls(truststore, keystore, password, verify)


def _store(config: BrokerConfig, which: str, location: str, password: str | None) -> StoreFile:
    prefix = f"zookeeper.ssl.{which}."
    return StoreFile(prefix, config[f"{prefix}type"] or "", location, password)


def _is_pem(location: str, kind: str | None) -> bool:
    """Return whether a store is PEM; if no type is configured, look at the file. Raises InvalidValue."""
    if kind is not None:
        return kind.upper() == PEM
    try:
        with open(location, "rb") as stream:
            return b"-----BEGIN " in stream.read(64 << 10)
    except OSError as problem:
        raise InvalidValue(f"{location}: {problem.strerror}") from None
