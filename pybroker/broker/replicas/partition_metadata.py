"""The file `partition.metadata` in a partition's directory: which incarnation the data belongs to (KIP-516).

    version: 0
    topic_id: <22 characters of base64; 32 hex digits and the dashed form are read, too>

Later versions may add lines; they are passed over. Everything else that is not as it must be is a problem of that one
partition: it is put aside with a sentence for the operator, never deleted, never guessed.
"""

from __future__ import annotations

from pathlib import Path

from pybroker.files import read_bounded
from pybroker.native import Uuid

FILE_NAME = "partition.metadata"

FILE_BYTES_MAX = 4096
"""Far above what any version needs; a longer file is damaged, not read."""


class PartitionMetadataError(Exception):
    """The file is missing or damaged. The text names the file, what was found and what is expected."""


def parse(path: Path | str, content: bytes) -> Uuid:
    """The topic id in `content`. Raises PartitionMetadataError."""
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
            raise PartitionMetadataError(f"{path}: {key.strip()!r} stands twice")
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
    """The topic id of a partition directory; None if it has no such file. Raises PartitionMetadataError."""
    path = directory / FILE_NAME
    try:
        return parse(path, read_bounded(path, FILE_BYTES_MAX))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise PartitionMetadataError(f"{path}: {problem.strerror}") from None
