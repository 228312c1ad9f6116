"""SCRAM users of a stopped broker or cluster. The first user must be created this way, because no client can log in
yet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pybroker.broker.lifecycle.startup.ownership import owner_of
from pybroker.broker.lifecycle.startup.store_opening import open_store
from pybroker.broker.metadata.metadata_store import MetadataStore, ensure_path, get_or_none
from pybroker.broker.metadata.migration_node import refuse_unfinished
from pybroker.broker.metadata.quota_nodes import USER_CONFIGS, user_of_path, user_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.metadata.znodes import CONTROLLER, DamagedNodeError, decode_config, encode_config
from pybroker.broker.quorum.bootstrap_users import read_users, write_users
from pybroker.config import BrokerConfig
from pybroker.errors import StartError
from pybroker.protocol.scram import BY_NAME, ScramCredential, ScramMechanism

Place = Path | BrokerConfig
"""A data directory, or the settings of a broker in a cluster."""


def _before_start(config: BrokerConfig) -> Path:
    """Return `metadata.log.dir` of a broker that founds a metadata quorum at its first start. Raises StartError if
    this broker will not found one."""
    directory = Path(config.metadata_log_dir)
    founder = min((voter.node_id for voter in config.voters), default=config.broker_id)
    if not config.voters and config.quorum_bootstrap:
        raise StartError(
            f"broker {config.broker_id} joins a cluster (controller.quorum.bootstrap.servers): run the command with "
            "the settings of the broker that makes the cluster, or use a running broker with --bootstrap-server"
        )
    if founder != config.broker_id:
        raise StartError(
            f"broker {founder} founds the cluster, not broker {config.broker_id}: run the command with the settings of "
            f"broker {founder}, on its machine and before its first start"
        )
    if owner_of(directory):
        raise StartError(
            f"{directory} belongs to a cluster already: start the cluster, and use one of its brokers with "
            "--bootstrap-server"
        )
    return directory


async def _open(place: Place) -> MetadataStore:
    """Open the store. Raises StartError if it cannot be read, or if a broker runs, because a running broker would not
    notice the change.
    """
    if isinstance(place, Path):
        return await EmbeddedStore.open(place)
    store = await open_store(place, lambda problem: None)
    try:
        await refuse_unfinished(store)
        if await get_or_none(store, CONTROLLER) is not None:
            raise StartError("brokers of this cluster are running. Use one of them with --bootstrap-server")
    except DamagedNodeError as problem:
        await store.close()
        raise StartError(f"the metadata store is damaged: {problem}") from None
    except BaseException:
        await store.close()
        raise
    return store


async def set_credentials(
    place: Place, name: str, credentials: dict[ScramMechanism, ScramCredential | None]
) -> None:
    """Set credentials in the store, or remove them (None). Create a missing data directory. Raises StartError if a
    broker runs, the store cannot be read, or a credential to remove does not exist.
    """
    if isinstance(place, Path):
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    elif place.in_quorum:
        await asyncio.to_thread(_set_before_start, place, name, credentials)
        return
    store = await _open(place)
    try:
        path = user_path(name)
        await ensure_path(store, USER_CONFIGS)
        node = await get_or_none(store, path)
        config = {} if node is None else decode_config(path, node.data)
        _change(name, config, credentials)
        if node is None:
            await store.create(path, encode_config(config))
        else:
            await store.set(path, encode_config(config), node.version)
    except DamagedNodeError as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None
    finally:
        await store.close()


def _change(
    name: str, config: dict[str, str], credentials: dict[ScramMechanism, ScramCredential | None]
) -> None:
    for mechanism, credential in credentials.items():
        if credential is not None:
            config[mechanism.mechanism_name] = credential.render()
        elif config.pop(mechanism.mechanism_name, None) is None:
            raise StartError(f"user {name!r} has no {mechanism.mechanism_name} credential")


def _set_before_start(
    config: BrokerConfig, name: str, credentials: dict[ScramMechanism, ScramCredential | None]
) -> None:
    directory = _before_start(config)
    users = read_users(directory)
    _change(name, users.setdefault(name, {}), credentials)
    write_users(directory, {user: stored for user, stored in users.items() if stored})


def _infos(config: Mapping[str, str]) -> list[tuple[ScramMechanism, int]]:
    return [
        (mechanism, ScramCredential.parse(config[name]).iterations)
        for name, mechanism in BY_NAME.items()
        if name in config
    ]


async def list_credentials(place: Place) -> dict[str, list[tuple[ScramMechanism, int]]]:
    """Return (mechanism, iterations) of every user. Raises StartError if the store cannot be read or a broker runs."""
    if isinstance(place, Path) and not await asyncio.to_thread(place.is_dir):
        raise StartError(f"{place} does not exist")
    if isinstance(place, BrokerConfig) and place.in_quorum:
        users = await asyncio.to_thread(lambda: read_users(_before_start(place)))
        return {name: _infos(stored) for name, stored in sorted(users.items())}
    store = await _open(place)
    try:
        await ensure_path(store, USER_CONFIGS)
        found: dict[str, list[tuple[ScramMechanism, int]]] = {}
        for path, node in (await store.subtree(USER_CONFIGS)).items():
            config = decode_config(path, node.data)
            infos = _infos(config)
            if infos:
                found[user_of_path(path)] = infos
        return dict(sorted(found.items()))
    except (DamagedNodeError, ValueError) as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None
    finally:
        await store.close()
