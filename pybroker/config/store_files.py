"""Checks the files that the settings of TLS name: keystores, truststores and revocation lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.setting_values import InvalidValue
from pybroker.config.stores import StoreFile


def unusable_stores(config: BrokerConfig) -> list[str]:
    """Read the stores of all listeners, and of the connection to ZooKeeper. Return a sentence for each store that
    cannot be used; the sentence names the listeners. Settings that are invalid by themselves are omitted.
    """
    users: dict[str, list[str]] = {}
    for listener in config.listeners:
        if listener.protocol.endswith("SSL"):
            try:
                settings = config.listener_tls(listener.name)
            except InvalidValue:
                continue
            for problem in _problems(_reads(settings)):
                users.setdefault(problem, []).append(listener.name)
    found = []
    for problem, names in users.items():
        listeners = "listener" if len(names) == 1 else "listeners"
        found.append(f"{listeners} {', '.join(names)}: {problem}")
    return found + list(_problems(_reads_of_zookeeper(config)))


def _reads(settings: TlsSettings) -> Iterator[Callable[[], bytes]]:
    keystore, chain, truststore, revoked = settings.keystore, settings.chain, settings.truststore, settings.revoked
    yield lambda: keystore.identity(settings.key_password)
    if chain is not None:
        yield chain.trusted
    if settings.client_auth != "none":
        if truststore is not None:
            yield truststore.trusted
        if revoked is not None:
            yield revoked.lists


def _reads_of_zookeeper(config: BrokerConfig) -> Iterator[Callable[[], bytes]]:
    if not config.in_cluster or config.in_quorum or not config["zookeeper.ssl.client.enable"]:
        return
    for which in ("truststore", "keystore"):
        prefix = f"zookeeper.ssl.{which}."
        location = config[f"{prefix}location"]
        if location is not None:
            yield StoreFile(prefix, config[f"{prefix}type"] or "", location).content


def _problems(reads: Iterator[Callable[[], bytes]]) -> Iterator[str]:
    for read in reads:
        try:
            read()
        except InvalidValue as problem:
            yield str(problem)
