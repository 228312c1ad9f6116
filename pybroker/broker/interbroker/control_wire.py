"""The controller's messages on the wire between brokers.

LeaderAndIsr, StopReplica, UpdateMetadata, RestoreReplicas and ReopenTopics need no conversion, because the codec
creates objects of the broker's own classes, whose fields are those of the wire format. All other messages contain
serialized bytes.
"""

from __future__ import annotations

import asyncio
import typing
import zlib
from collections.abc import Mapping
from typing import Any

from pybroker.broker.cluster.value_codec import UnreadableError, pack, unpack
from pybroker.broker.metadata import control_messages as control
from pybroker.broker.metadata.control_messages import ControlRequest, ControlResponse
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import message_schema, use_classes
from pybroker.protocol import interbroker as wire

APART_BYTES_MIN = 16 * 1024
"""Size in bytes from which on a change of the cluster is read on a thread, because reading takes milliseconds."""
IMAGE_BYTES_MAX = 1 << 30
"""Size limit in bytes of a whole image. An image with 200,000 partitions has 30 MB, and 3 MB compressed on the wire."""

_SAME: tuple[tuple[str, type], ...] = (
    ("LeaderAndIsrRequest", control.LeaderAndIsrRequest),
    ("LeaderAndIsrResponse", control.LeaderAndIsrResponse),
    ("StopReplicaRequest", control.StopReplicaRequest),
    ("StopReplicaResponse", control.StopReplicaResponse),
    ("UpdateMetadataRequest", control.UpdateMetadataRequest),
    ("UpdateMetadataResponse", control.UpdateMetadataResponse),
    ("RestoreReplicasRequest", control.RestoreReplicasRequest),
    ("RestoreReplicasResponse", control.RestoreReplicasResponse),
    ("ReopenTopicsRequest", control.ReopenTopics),
    ("ReopenTopicsResponse", control.ReopenTopicsResponse),
    ("UpdateClusterResponse", control.UpdateClusterResponse),
)


def _pairs(classes: Mapping[str, Any], name: str, kind: type) -> dict[str, type]:
    """Return the class to create for each struct of a message, by the struct's name."""
    found = {name: kind}
    hints = typing.get_type_hints(kind)
    for field in classes[name]:
        inner = field.type_name.removeprefix("[]")
        if inner in classes:
            (element, *_) = typing.get_args(hints[field.name])
            found |= _pairs(classes, inner, element)
    return found


def _use_our_classes() -> None:
    for name, kind in _SAME:
        schema = message_schema(name, interbroker=True)
        assert schema is not None, name
        use_classes(name, _pairs({struct.name: struct.fields for struct in schema.structs}, name, kind))


_use_our_classes()


class _ChangeCache:
    """Cache of the last serialized change, because all brokers get the same bytes."""

    def __init__(self) -> None:
        self._change: object = None
        self._data = b""

    def of(self, change: ClusterImage | ImageDelta) -> bytes:
        """Return the serialized change."""
        if change is not self._change:
            data = pack(change)
            self._change, self._data = change, zlib.compress(data, 1) if isinstance(change, ClusterImage) else data
        return self._data


_CHANGE_CACHE = _ChangeCache()


def request_to_wire(request: ControlRequest) -> Any:
    """Return the message for the codec."""
    match request:
        case control.UpdateCluster(controller_id, controller_epoch, broker_epoch, number, change):
            return wire.UpdateClusterRequest(
                controller_id=controller_id,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                number=number,
                whole=isinstance(change, ClusterImage),
                change=_CHANGE_CACHE.of(change),
            )
        case control.CloseTopics(controller_id, controller_epoch, broker_epoch, topics, number):
            return wire.CloseTopicsRequest(
                controller_id=controller_id,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                topics=list(topics),
                number=number,
            )
    return request


async def sendable(request: ControlRequest) -> Any:
    """Convert like `request_to_wire`. A thread serializes a whole image, so that the loop can serve other requests."""
    if isinstance(request, control.UpdateCluster) and isinstance(request.change, ClusterImage):
        return await asyncio.get_running_loop().run_in_executor(None, request_to_wire, request)
    return request_to_wire(request)


async def received(message: Any) -> ControlRequest:
    """Convert like `request_from_wire`. A thread reads a large message."""
    if isinstance(message, wire.UpdateClusterRequest) and len(message.change) > APART_BYTES_MIN:
        return await asyncio.get_running_loop().run_in_executor(None, request_from_wire, message)
    return request_from_wire(message)


def request_from_wire(message: Any) -> ControlRequest:
    """Return the request for the receiver. Raises UnreadableError if the bytes cannot be decoded."""
    if isinstance(message, wire.UpdateClusterRequest):
        data = message.change
        change = unpack(ClusterImage, _inflated(data)) if message.whole else unpack(ImageDelta, data)
        return control.UpdateCluster(
            message.controller_id, message.controller_epoch, message.broker_epoch, message.number, change
        )
    if isinstance(message, wire.CloseTopicsRequest):
        return control.CloseTopics(
            message.controller_id,
            message.controller_epoch,
            message.broker_epoch,
            tuple(message.topics),
            message.number,
        )
    request: ControlRequest = message
    return request


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj()
    try:
        image = inflating.decompress(data, IMAGE_BYTES_MAX)
    except zlib.error as problem:
        raise UnreadableError(f"cannot read the metadata image: {problem}") from None
    if not inflating.eof:
        raise UnreadableError(f"the metadata image is incomplete, or larger than {IMAGE_BYTES_MAX} bytes")
    return image


def response_to_wire(response: ControlResponse) -> Any:
    """Return the message for the codec."""
    if isinstance(response, control.CloseTopicsResponse):
        return wire.CloseTopicsResponse(
            error_code=response.error_code, topics=[_closed_to_wire(topic) for topic in response.topics]
        )
    return response


def response_from_wire(request: ControlRequest, message: Any) -> ControlResponse:
    """Return the answer to a request. Raises UnreadableError."""
    if isinstance(request, control.CloseTopics):
        return control.CloseTopicsResponse(
            message.error_code, tuple(_closed_from_wire(topic) for topic in message.topics)
        )
    response: ControlResponse = message
    return response


def _closed_to_wire(topic: control.ClosedTopic) -> Any:
    ends = [
        wire.CloseTopicsResponse_ClosedPartition(partition_index=index, log_start_offset=start, log_end_offset=end)
        for index, (start, end) in topic.ends.items()
    ]
    offsets = [pack(offset) for offset in topic.offsets]
    return wire.CloseTopicsResponse_ClosedTopic(topic_id=topic.topic_id, ends=ends, offsets=offsets)


def _closed_from_wire(topic: Any) -> control.ClosedTopic:
    ends = {end.partition_index: (end.log_start_offset, end.log_end_offset) for end in topic.ends}
    return control.ClosedTopic(topic.topic_id, ends, tuple(unpack(dict[str, Any], offset) for offset in topic.offsets))


