"""The file `partition.metadata` in a partition's directory: the topic id of the data (KIP-516).

    version: 0
    topic_id: <22 characters of base64; also read: 32 hex digits and the dashed form>

The reader ignores unknown lines of later versions. Any other error affects only this partition: the broker does not
serve the partition and writes a log line for the operator. It neither deletes the partition nor guesses an id.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pybroker.files import read_bounded
from pybroker.native import Uuid

FILE_NAME = "partition.metadata"

FILE_BYTES_MAX = 4096
"""Size limit, far above the size of any version; a longer file counts as damaged."""


class PartitionMetadataError(Exception):
    """The file is missing or damaged. The text contains the file's name, its content and the expected content."""


def parse(path: Path | str, content: bytes) -> Uuid:
    """Return the topic id in `content`. Raises PartitionMetadataError if it is damaged."""
    if len(content) > FILE_BYTES_MAX:
        raise PartitionMetadataError(f"{path}: longer than {FILE_BYTES_MAX} bytes")
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        raise PartitionMetadataError(f"{path}: not ASCII text") from None
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon:
            raise PartitionMetadataError(f"{path}: {line[:80]!r} is not a line of the form 'key: value'")
        if key.strip() in values:
            raise PartitionMetadataError(f"{path}: {key.strip()!r} appears twice")
        values[key.strip()] = value.strip()
    version = values.get("version", "")
    if not version.isdigit():
        raise PartitionMetadataError(f"{path}: expected 'version: 0', found {version[:80]!r}")
    try:
        topic_id = Uuid.parse(values.get("topic_id", ""))
    except ValueError:
        raise PartitionMetadataError(f"{path}: topic_id {values.get('topic_id', '')[:80]!r} is not an id") from None
    if topic_id in (Uuid.ZERO, Uuid.METADATA):
        raise PartitionMetadataError(f"{path}: topic_id {topic_id} is reserved")
    return topic_id


def read(directory: Path) -> Uuid | None:
    """Return the topic id of a partition directory; None if it has no such file. Raises PartitionMetadataError if the
    file is damaged.
    """
    path = directory / FILE_NAME
    try:
        return parse(path, read_bounded(path, FILE_BYTES_MAX))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise PartitionMetadataError(f"{path}: {problem.strerror}") from None


log = logging.getLogger(__name__)

EPOCH_CHECKPOINT_BYTES_MAX = 1 << 20
EPOCH_MAX = (1 << 31) - 1


def last_epoch(directory: Path) -> int:
    """Return the highest leader epoch in a directory; -1 if there is none. If the checkpoint is unreadable, return
    EPOCH_MAX, because any epoch is possible.
    """
    path = directory / "leader-epoch-checkpoint"
    try:
        lines = read_bounded(path, EPOCH_CHECKPOINT_BYTES_MAX).decode("ascii").split("\n")
        return max((int(line.split(" ")[0]) for line in lines[2:] if line), default=-1)
    except FileNotFoundError:
        return -1
    except (OSError, ValueError) as problem:
        log.error("cannot read a leader epoch checkpoint path=%s: %s", path, problem)
        return EPOCH_MAX
