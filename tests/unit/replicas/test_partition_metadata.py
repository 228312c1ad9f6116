"""`partition.metadata`: which contents are accepted, which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.broker.replicas import partition_metadata
from pybroker.broker.replicas.partition_metadata import FILE_BYTES_MAX, PartitionMetadataError
from pybroker.native import Uuid

ID = Uuid.parse("46bdb63f9e8d4a38bf7bee4eb2a794e4")


@pytest.mark.checklist(129, 130, 131, 132, 134)
@pytest.mark.parametrize(
    "content",
    [
        b"version: 0\ntopic_id: Rr22P56NSji_e-5OsqeU5A",
        b"version: 0\ntopic_id: 46bdb63f9e8d4a38bf7bee4eb2a794e4\n",
        b"version: 0\r\ntopic_id: 46bdb63f-9e8d-4a38-bf7b-ee4eb2a794e4\r\n",
        b"version: 3\ntopic_id: Rr22P56NSji_e-5OsqeU5A\nnewer: field\n\n",
        b"topic_id:Rr22P56NSji_e-5OsqeU5A\nversion:0",
    ],
)
def test_every_form_is_read(content: bytes) -> None:
    assert partition_metadata.parse("f", content) == ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0",
        b"topic_id: Rr22P56NSji_e-5OsqeU5A",
        b"version: x\ntopic_id: Rr22P56NSji_e-5OsqeU5A",
        b"version: -1\ntopic_id: Rr22P56NSji_e-5OsqeU5A",
        b"version: 0\ntopic_id: Rr22P56NSji_e-5OsqeU5",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\ntopic_id: Rr22P56NSji_e-5OsqeU5A\ntopic_id: Rr22P56NSji_e-5OsqeU5A",
        b"version: 0\ntopic_id: Rr22P56NSji_e-5OsqeU5A\ngarbage",
        b"\x00" * 40,
        b"\xff",
        b"version: 0\ntopic_id: Rr22P56NSji_e-5OsqeU5A\n" + b"x: y\n" * FILE_BYTES_MAX,
    ],
)
def test_everything_else_is_refused_with_the_file_named(content: bytes) -> None:
    with pytest.raises(PartitionMetadataError, match="the-file"):
        partition_metadata.parse("the-file", content)


def test_a_directory_without_the_file(tmp_path: Path) -> None:
    assert partition_metadata.read(tmp_path) is None
    (tmp_path / "partition.metadata").write_bytes(b"version: 0\ntopic_id: Rr22P56NSji_e-5OsqeU5A")
    assert partition_metadata.read(tmp_path) == ID
