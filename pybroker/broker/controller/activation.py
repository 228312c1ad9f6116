"""Becoming controller: taking the office, with a new epoch, and loading everything before a word is said."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from pybroker.broker.gc_tuning import let_be
from pybroker.broker.metadata import store_history, znodes
from pybroker.broker.metadata.acls import ACLS, EXTENDED_ACLS
from pybroker.broker.metadata.delegation_tokens import TOKENS
from pybroker.broker.metadata.features import FEATURES
from pybroker.broker.metadata.image import ConfigImage
from pybroker.broker.metadata.load import LoadedImage, LocalIds, Nodes, broker_configs, lacks_ids, load_image, shown_id
from pybroker.broker.metadata.store import (
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
from pybroker.broker.metadata.store_history import decode_offices, encode_offices
from pybroker.errors import FatalError

NODES_MANY = 20_000

FindLocalIds = Callable[[], Awaitable[LocalIds]]
"""What `partition.metadata` on this broker says about names; asked only when a topic has no id."""
ShowsTopicIds = Callable[[Mapping[str, ConfigImage], Callable[[], bool]], bool]
"""Whether the protocol version gives topics ids, under these stored settings of brokers; the second says whether the
store shows one already."""


class Office(msgspec.Struct, frozen=True):
    """The right to write, as long as nobody has taken the office since."""

    epoch: int
    epoch_version: int
    decisions: int
    """How many were made before."""

    def check(self) -> Operation:
        """Comes first in every multi, so that nothing is written under a successor (KAFKA-6082)."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class OfficeTakenError(FatalError):
    """Another broker is the controller."""

    def __init__(self) -> None:
        super().__init__("another broker is the controller of this metadata store")


async def take_office(store: MetadataStore, broker_id: int, now_ms: int) -> Office:
    """Makes a broker the controller. Raises OfficeTakenError."""
    node = await get_or_none(store, znodes.CONTROLLER_EPOCH)
    counted = await store.get(znodes.DECISIONS)
    # Taking the office is one, too: the history of the store has no gap.
    decisions = znodes.decode_decisions(counted.data) + 1
    known = await store.get(znodes.OFFICES)
    epoch = 1 if node is None else znodes.decode_controller_epoch(node.data) + 1
    data = str(epoch).encode()
    office = Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, now_ms), ephemeral=True)
    number: Operation = (
        Create(znodes.CONTROLLER_EPOCH, data) if node is None else Set(znodes.CONTROLLER_EPOCH, data, node.version)
    )
    offices = {**decode_offices(known.data), epoch: store_history.Office(secrets.token_hex(8), decisions)}
    history = [
        Set(znodes.DECISIONS, str(decisions).encode(), counted.version),
        Set(znodes.OFFICES, encode_offices(offices), known.version),
    ]
    try:
        await store.multi([office, number, *history])
    except MultiError as error:
        if isinstance(error.cause, NodeExistsError | BadVersionError):
            raise OfficeTakenError from error
        raise
    return Office(epoch, 0 if node is None else node.version + 1, decisions)


async def load_cluster(
    store: MetadataStore, office: Office, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds
) -> LoadedImage:
    """Reads everything and mends what is incomplete. Raises LoweredError: topics have ids already, and the protocol
    version does not know them."""
    names = (znodes.TOPICS, "/config", "/admin", ACLS, EXTENDED_ACLS, "/ingest", TOKENS)
    epochs = await store.get(znodes.BROKER_EPOCHS)
    features = await get_or_none(store, FEATURES)
    with let_be() as made:
        read = [await store.subtree(name) for name in names]
        made.large = sum(map(len, read)) > NODES_MANY
        topics, configs, admin, acls, extended_acls, ingest, tokens = read
        nodes = Nodes(topics, configs, admin, acls, extended_acls, ingest, epochs.data, features, tokens)
        # On a thread: of 200,000 partitions it takes a second, and this broker serves others meanwhile.
        loop = asyncio.get_running_loop()
        # The scan of the directories goes on meanwhile; only topics without an id must wait for it.
        local_ids = await find_local_ids() if await loop.run_in_executor(None, lacks_ids, nodes) else {}
        topic_ids = shows_topic_ids(broker_configs(nodes.configs), lambda: shown_id(nodes.topics) is not None)
        loaded = await loop.run_in_executor(
            None, partial(_load, read, partial(load_image, office.epoch, nodes, local_ids, topic_ids=topic_ids))
        )
    for part in in_parts(loaded.repairs):
        await store.multi([office.check(), *part])
    return loaded


def _load(read: Sequence[dict[str, Node]], load: Callable[[], LoadedImage]) -> LoadedImage:
    """Frees what was read piece by piece: all at once it would hold every thread for a tenth of a second."""
    loaded = load()
    for nodes in read:
        while nodes:
            nodes.popitem()
    return loaded
