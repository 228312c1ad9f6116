"""SCRAM users of a stopped broker or cluster. The first user must be created this way, because no client can log in
yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pybroker.broker.lifecycle.startup.store_opening import open_store
from pybroker.broker.metadata.metadata_store import MetadataStore, ensure_path, get_or_none
from pybroker.broker.metadata.quota_nodes import USER_CONFIGS, user_of_path, user_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.metadata.znodes import CONTROLLER, DamagedNodeError, decode_config, encode_config
from pybroker.config import BrokerConfig
from pybroker.errors import StartError
from pybroker.protocol.scram import BY_NAME, ScramCredential, ScramMechanism

Place = Path | BrokerConfig
"""A data directory, or the settings of a broker in a cluster."""


async def _open(place: Place) -> MetadataStore:
    """Open the store. Raises StartError if it cannot be read, or if a broker runs, because a running broker would not
    see the change.
    """
    if isinstance(place, Path):
        return await EmbeddedStore.open(place)
    store = await open_store(place, lambda problem: None)
    controller = await get_or_none(store, CONTROLLER)
    if controller is not None:
        await store.close()
        raise StartError("brokers of this cluster are running. Use one of them with --bootstrap-server")
    return store


async def set_credentials(
    place: Place, name: str, credentials: dict[ScramMechanism, ScramCredential | None]
) -> None:
    """Set or (None) remove credentials in the store; create a missing data directory. Raises StartError if a broker
    runs, the store cannot be read, or a credential to remove does not exist.
    """
    if isinstance(place, Path):
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    store = await _open(place)
    try:
        path = user_path(name)
        await ensure_path(store, USER_CONFIGS)
        node = await get_or_none(store, path)
        config = {} if node is None else decode_config(path, node.data)
        for mechanism, credential in credentials.items():
            if credential is not None:
                config[mechanism.mechanism_name] = credential.render()
            elif config.pop(mechanism.mechanism_name, None) is None:
                raise StartError(f"user {name!r} has no {mechanism.mechanism_name} credential")
        if node is None:
            await store.create(path, encode_config(config))
        else:
            await store.set(path, encode_config(config), node.version)
    except DamagedNodeError as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None
    finally:
        await store.close()


async def list_credentials(place: Place) -> dict[str, list[tuple[ScramMechanism, int]]]:
    """Return (mechanism, iterations) of every user. Raises StartError if the store cannot be read or a broker runs."""
    if isinstance(place, Path) and not await asyncio.to_thread(place.is_dir):
        raise StartError(f"{place} does not exist")
    store = await _open(place)
    try:
        await ensure_path(store, USER_CONFIGS)
        found: dict[str, list[tuple[ScramMechanism, int]]] = {}
        for path, node in (await store.subtree(USER_CONFIGS)).items():
            config = decode_config(path, node.data)
            infos = [
                (mechanism, ScramCredential.parse(config[name]).iterations)
                for name, mechanism in BY_NAME.items()
                if name in config
            ]
            if infos:
                found[user_of_path(path)] = infos
        return dict(sorted(found.items()))
    except (DamagedNodeError, ValueError) as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None
    finally:
        await store.close()
