"""Activation of a controller: it takes the leadership with a new epoch, and loads everything before it sends
anything."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from pybroker.broker.gc_tuning import let_be
from pybroker.broker.metadata import store_history, znodes
from pybroker.broker.metadata.acl_nodes import ACLS, EXTENDED_ACLS
from pybroker.broker.metadata.feature_levels import FEATURES
from pybroker.broker.metadata.image import ConfigImage
from pybroker.broker.metadata.image_loader import (
    LoadedImage,
    LocalIds,
    Nodes,
    broker_configs,
    lacks_ids,
    load_image,
    shown_id,
)
from pybroker.broker.metadata.metadata_store import (
    BadVersionError,
    Check,
    Create,
    MetadataStore,
    MultiError,
    Node,
    NodeExistsError,
    Operation,
    Set,
    get_or_none,
    in_parts,
)
from pybroker.broker.metadata.store_history import decode_terms, encode_terms
from pybroker.broker.metadata.token_nodes import TOKENS
from pybroker.errors import FatalError

NODES_MANY = 20_000

FindLocalIds = Callable[[], Awaitable[LocalIds]]
"""Function that returns, by name, the topic ids in the `partition.metadata` files on this broker. Called only if a
topic has no id.
"""
ShowsTopicIds = Callable[[Mapping[str, ConfigImage], Callable[[], bool]], bool]
"""Function that returns whether the protocol version has topic ids, given the stored broker settings. The second
argument is a function that returns whether the store already shows an id.
"""


class ControllerTerm(msgspec.Struct, frozen=True):
    """A term of the controller leadership: permission to write until another broker takes the leadership."""

    epoch: int
    epoch_version: int
    decisions: int
    """Number of decisions of all earlier terms."""

    def check(self) -> Operation:
        """Return the first operation of every multi, It makes a write fail once another broker is the controller
        (KAFKA-6082).
        """
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class LeadershipTakenError(FatalError):
    """Another broker is the controller."""

    def __init__(self) -> None:
        super().__init__("another broker is the controller of this metadata store")


async def take_leadership(store: MetadataStore, broker_id: int, now_ms: int) -> ControllerTerm:
    """Make a broker the controller. Raises OfficeTakenError if another broker is the controller."""
    node = await get_or_none(store, znodes.CONTROLLER_EPOCH)
    counted = await store.get(znodes.DECISIONS)
    # Each new leadership counts as a decision, so that the history of the store has no gap.
    decisions = znodes.decode_decisions(counted.data) + 1
    known = await store.get(znodes.OFFICES)
    epoch = 1 if node is None else znodes.decode_controller_epoch(node.data) + 1
    data = str(epoch).encode()
    term = Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, now_ms), ephemeral=True)
    number: Operation = (
        Create(znodes.CONTROLLER_EPOCH, data) if node is None else Set(znodes.CONTROLLER_EPOCH, data, node.version)
    )
    offices = {**decode_terms(known.data), epoch: store_history.StoredTerm(secrets.token_hex(8), decisions)}
    history = [
        Set(znodes.DECISIONS, str(decisions).encode(), counted.version),
        Set(znodes.OFFICES, encode_terms(offices), known.version),
    ]
    try:
        await store.multi([term, number, *history])
    except MultiError as error:
        if isinstance(error.cause, NodeExistsError | BadVersionError):
            raise LeadershipTakenError from error
        raise
    return ControllerTerm(epoch, 0 if node is None else node.version + 1, decisions)


async def load_cluster(
    store: MetadataStore, term: ControllerTerm, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds
) -> LoadedImage:
    """Read everything and complete interrupted changes. Raises LoweredError if topics already have ids and the protocol
    version does not support them."""
    names = (znodes.TOPICS, "/config", "/admin", ACLS, EXTENDED_ACLS, "/ingest", TOKENS)
    epochs = await store.get(znodes.BROKER_EPOCHS)
    features = await get_or_none(store, FEATURES)
    with let_be() as made:
        read = [await store.subtree(name) for name in names]
        made.large = sum(map(len, read)) > NODES_MANY
        topics, configs, admin, acls, extended_acls, ingest, tokens = read
        nodes = Nodes(topics, configs, admin, acls, extended_acls, ingest, epochs.data, features, tokens)
        # On a thread: 200,000 partitions take a second, and this broker serves requests meanwhile.
        loop = asyncio.get_running_loop()
        # The scan of the log directories runs in parallel; only topics without an id must wait for it.
        local_ids = await find_local_ids() if await loop.run_in_executor(None, lacks_ids, nodes) else {}
        topic_ids = shows_topic_ids(broker_configs(nodes.configs), lambda: shown_id(nodes.topics) is not None)
        loaded = await loop.run_in_executor(
            None, partial(_load, read, partial(load_image, term.epoch, nodes, local_ids, topic_ids=topic_ids))
        )
    for part in in_parts(loaded.repairs):
        await store.multi([term.check(), *part])
    return loaded


def _load(read: Sequence[dict[str, Node]], load: Callable[[], LoadedImage]) -> LoadedImage:
    """Load the image. Free the read nodes one by one: freeing all of them together would block every thread for 100 ms.
    """
    loaded = load()
    for nodes in read:
        while nodes:
            nodes.popitem()
    return loaded
