"""The durable marks of this broker's staged data: in the metadata store, or in the metadata log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient, submit_until_accepted
from pybroker.broker.cluster.quorum_events import MarkStaged
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import DeletionHead, decode_deletion_head
from pybroker.broker.metadata.metadata_store import (
    Create,
    MetadataStore,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    UnavailableError,
    UnknownOutcomeError,
    ensure_path,
    get_or_none,
    in_parts,
)
from pybroker.errors import KafkaError
from pybroker.native import Uuid

log = logging.getLogger(__name__)

RETRY_S = 0.5


class StagedMarks(Protocol):
    """The marks of one broker."""

    async def load(self) -> dict[Uuid, znodes.StagedNode]:
        """Return all marks. Remove damaged marks; their data then gets a new deadline."""
        ...

    async def write(self, marks: Mapping[Uuid, znodes.StagedNode], known: Iterable[Uuid]) -> None:
        """Write marks. `known`: the topics that already have a mark. While the write is impossible, wait, because data
        must not be moved without a deadline."""
        ...

    async def replace(self, marks: Mapping[Uuid, znodes.StagedNode]) -> None:
        """Replace existing marks. Raises StoreError."""
        ...

    async def forget(self, topic_id: Uuid) -> None:
        """Remove a mark. While the write is impossible, wait, as in `write`."""
        ...

    async def deletion(self, topic_id: Uuid) -> DeletionHead | None:
        """Return the deletion of a topic; None if it does not exist or is unreadable."""
        ...


class StoredMarks:
    """`StagedMarks` in the metadata store."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._path = f"{znodes.STAGED}/{broker_id}"

    async def load(self) -> dict[Uuid, znodes.StagedNode]:
        """Read the marks' znodes."""
        await ensure_path(self._store, self._path)
        marks: dict[Uuid, znodes.StagedNode] = {}
        for path, node in (await self._store.subtree(self._path)).items():
            name = path.rsplit("/", 1)[1]
            try:
                marks[Uuid.parse(name)] = znodes.decode_staged(path, node.data)
            except (ValueError, znodes.DamagedNodeError) as problem:
                log.error("replaced a damaged removal deadline: %s", problem)
                await self._store.delete(path)
        return marks

    async def write(self, marks: Mapping[Uuid, znodes.StagedNode], known: Iterable[Uuid]) -> None:
        """Write the marks' znodes."""
        there = set(known)
        operations = [
            (Set if topic_id in there else Create)(f"{self._path}/{topic_id}", node.encode())
            for topic_id, node in marks.items()
        ]
        for part in in_parts(operations):
            await self._write_part(part)

    async def _write_part(self, part: Sequence[Operation]) -> None:
        while True:
            try:
                await self._store.multi(part)
                return
            except (UnavailableError, UnknownOutcomeError) as problem:
                log.warning("cannot store removal deadlines, retrying: %s", problem)
            except MultiError as error:
                if not isinstance(error.cause, NodeExistsError | NoNodeError):
                    raise
                # An earlier attempt has succeeded although it reported an error.
                part = [await self._fitting(operation) for operation in part]

    async def _fitting(self, operation: Operation) -> Operation:
        assert isinstance(operation, Create | Set)
        there = await get_or_none(self._store, operation.path)
        return (Create if there is None else Set)(operation.path, operation.data)

    async def replace(self, marks: Mapping[Uuid, znodes.StagedNode]) -> None:
        """Replace the marks' znodes."""
        for part in in_parts([Set(f"{self._path}/{topic_id}", node.encode()) for topic_id, node in marks.items()]):
            await self._store.multi(part)

    async def forget(self, topic_id: Uuid) -> None:
        """Delete the mark's znode."""
        while True:
            try:
                await self._store.delete(f"{self._path}/{topic_id}")
            except (UnavailableError, UnknownOutcomeError) as problem:
                log.warning("cannot store that a topic's data is removed, retrying id=%s: %s", topic_id, problem)
                continue
            except NoNodeError:
                pass
            return

    async def deletion(self, topic_id: Uuid) -> DeletionHead | None:
        """Read the deletion record."""
        path = znodes.deletion_path(topic_id)
        node = await get_or_none(self._store, path)
        try:
            return None if node is None else decode_deletion_head(path, node.data)
        except znodes.DamagedNodeError as problem:
            log.error("ignored a damaged deletion record: %s", problem)
            return None


class LoggedMarks:
    """`StagedMarks` in the metadata log: events to the controller, and the image."""

    def __init__(self, controller: ControllerClient, view: ClusterView, broker_id: int) -> None:
        self._controller = controller
        self._view = view
        self._broker_id = broker_id

    async def load(self) -> dict[Uuid, znodes.StagedNode]:
        """Return the marks of the image, when the image contains the registration of this process."""
        return dict(self._view.image.staged.get(self._broker_id, {}))

    async def write(self, marks: Mapping[Uuid, znodes.StagedNode], known: Iterable[Uuid]) -> None:
        """Submit the marks. Retry until the controller has them."""
        del known
        if marks:
            await self._until_taken(MarkStaged(self._broker_id, staged=marks))

    async def replace(self, marks: Mapping[Uuid, znodes.StagedNode]) -> None:
        """Submit the marks. Raises UnavailableError if there is no controller."""
        if marks:
            try:
                await self._controller.submit(MarkStaged(self._broker_id, staged=marks))
            except KafkaError as error:
                raise UnavailableError(str(error)) from error

    async def forget(self, topic_id: Uuid) -> None:
        """Submit the removal. Retry until the controller has it."""
        await self._until_taken(MarkStaged(self._broker_id, removed=(topic_id,)))

    async def _until_taken(self, event: MarkStaged) -> None:
        def retrying(error: KafkaError) -> None:
            log.warning("cannot store removal deadlines, retrying: %s", error)

        await submit_until_accepted(self._controller, event, RETRY_S, retrying)

    async def deletion(self, topic_id: Uuid) -> DeletionHead | None:
        """Return the head of the record in the image."""
        record = self._view.image.deletions.get(topic_id)
        if record is None:
            return None
        return DeletionHead(record.state, topic=record.topic, deleted_ms=record.deleted_ms, closed=record.closed)
