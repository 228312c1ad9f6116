"""What a decision function gives back: store operations, the change of the image, and the reply. It has done nothing
yet."""

from __future__ import annotations

from typing import Any

import msgspec

from pybroker.metadata.image import ImageDelta
from pybroker.metadata.store import Operation


class Decision(msgspec.Struct, frozen=True):
    """The controller loop makes it durable (one multi), visible, sent, answered: in that order."""

    operations: tuple[Operation, ...]
    delta: ImageDelta
    reply: Any


def nothing(reply: Any) -> Decision:
    """A decision that changes nothing."""
    return Decision((), ImageDelta(), reply)
