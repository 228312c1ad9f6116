"""Activation of a controller. The broker becomes the controller in a new epoch, then loads all metadata before it sends
anything to the brokers."""

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
"""Returns topic name → topic id from the `partition.metadata` files on this broker. Called only if a topic in the store
has no id."""
ShowsTopicIds = Callable[[Mapping[str, ConfigImage], Callable[[], bool]], bool]
"""Returns whether topics have ids in the configured protocol version. First argument: the stored broker settings.
Second argument: a function that returns whether a topic in the store already has an id."""


class ControllerTerm(msgspec.Struct, frozen=True):
    """The right of one controller to write metadata. It ends when another broker becomes the controller."""

    epoch: int
    epoch_version: int
    decisions: int
    """Number of decisions of all earlier controllers."""

    def check(self) -> Operation:
        """Return the operation that must come first in every multi. It makes the write fail if another broker is now
        the controller (KAFKA-6082)."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class LeadershipTakenError(FatalError):
    """Another broker is the controller."""

    def __init__(self) -> None:
        super().__init__("another broker is the controller of this metadata store")


async def take_leadership(store: MetadataStore, broker_id: int, now_ms: int) -> ControllerTerm:
    """Make a broker the controller. Raises LeadershipTakenError if another broker is the controller."""
    node = await get_or_none(store, znodes.CONTROLLER_EPOCH)
    counted = await store.get(znodes.DECISIONS)
    # Becoming the controller counts as a decision, so the decision numbers in the store have no gap.
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
    """Load all metadata and complete changes that a crash interrupted. Raises LoweredError if topics have ids and the
    configured protocol version does not support them."""
    names = (znodes.TOPICS, "/config", "/admin", ACLS, EXTENDED_ACLS, "/ingest", TOKENS)
    epochs = await store.get(znodes.BROKER_EPOCHS)
    features = await get_or_none(store, FEATURES)
    with let_be() as made:
        read = [await store.subtree(name) for name in names]
        made.large = sum(map(len, read)) > NODES_MANY
        topics, configs, admin, acls, extended_acls, ingest, tokens = read
        nodes = Nodes(topics, configs, admin, acls, extended_acls, ingest, epochs.data, features, tokens)
        # Loading 200,000 partitions takes a second. A thread does it, because the event loop serves requests in that
        # time.
        loop = asyncio.get_running_loop()
        # The scan of the log directories is already running. Wait for it only if a topic has no id.
        local_ids = await find_local_ids() if await loop.run_in_executor(None, lacks_ids, nodes) else {}
        topic_ids = shows_topic_ids(broker_configs(nodes.configs), lambda: shown_id(nodes.topics) is not None)
        loaded = await loop.run_in_executor(
            None, partial(_load, read, partial(load_image, term.epoch, nodes, local_ids, topic_ids=topic_ids))
        )
    for part in in_parts(loaded.repairs):
        await store.multi([term.check(), *part])
    return loaded


def _load(read: Sequence[dict[str, Node]], load: Callable[[], LoadedImage]) -> LoadedImage:
    """Load the image. Release the nodes in portions: releasing all of them at once would block every thread for 100 ms.
    """
    loaded = load()
    for nodes in read:
        while nodes:
            nodes.popitem()
    return loaded
