"""Faults that the simulation must find: each replaces one function of the product by a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.controller import partition_states
from pybroker.broker.controller.completion import DecisionCompleter
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.deletion_tracker import Deletions
from pybroker.broker.controller.local_controller_client import LocalControllerClient
from pybroker.broker.controller.quorum_terms import QuorumTerms
from pybroker.broker.controller.write_fence import WriteFences
from pybroker.broker.metadata.image import ClusterImage, PartitionImage
from pybroker.broker.replicas.partition_visibility import PartitionVisibility
from pybroker.broker.replicas.quorum_registration import QuorumRegistration
from pybroker.errors import KafkaError

Plant = Callable[[], AbstractContextManager[Any]]


def _without(owner: type, name: str, result: object = None) -> Plant:
    """A method that does nothing."""
    return lambda: mock.patch.object(owner, name, return_value=result)


def _without_async(owner: type, name: str) -> Plant:
    async def nothing(*_: object, **__: object) -> None:
        pass

    return lambda: mock.patch.object(owner, name, nothing)


def _start_without_records(self: Deletions, image: ClusterImage) -> None:
    self._image = image
    self._spawn(self._run())


def _epoch_kept() -> AbstractContextManager[Any]:
    right = partition_states.next_state

    def next_state(image: ClusterImage, before: PartitionImage, election: Any) -> PartitionImage:
        return msgspec.structs.replace(right(image, before, election), leader_epoch=before.leader_epoch)

    return mock.patch.object(partition_states, "next_state", next_state)


def _incomplete_at_once() -> AbstractContextManager[Any]:
    right = DecisionCompleter.answer

    async def answer(self: DecisionCompleter, submission: Any, decided: Any) -> EventAnswer[Any]:
        try:
            return await right(self, submission, decided)
        except KafkaError:
            return EventAnswer(decided.reply, False)

    return mock.patch.object(DecisionCompleter, "answer", answer)


def _put_back_forever() -> AbstractContextManager[Any]:
    def put_back(self: LocalControllerClient, submission: Any) -> None:
        self._queue.put_nowait(submission)

    return mock.patch.object(LocalControllerClient, "put_back", put_back)


PLANTS: Mapping[str, Plant] = {
    "refuse-queued-forgotten": _without(LocalControllerClient, "refuse_queued"),
    "put-back-after-the-end": _put_back_forever,
    "outcomes-not-loaded": _without_async(QuorumTerms, "load_outcomes"),
    "visibility-never-released": _without(PartitionVisibility, "release", []),
    "fence-not-reopened": _without(WriteFences, "reopen"),
    "deletions-not-resumed": lambda: mock.patch.object(Deletions, "start", _start_without_records),
    "epoch-not-raised": _epoch_kept,
    "incomplete-when-the-controller-moves": _incomplete_at_once,
    "report-not-confirmed": _without_async(Controller, "_confirm_report"),
    "applied-never-reported": _without(QuorumRegistration, "applied"),
}
