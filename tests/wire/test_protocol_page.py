"""docs/protocol.md names the fields of pybroker's own requests as the schemas have them, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pybroker import native

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
OWN = re.findall(r"^\| (\d{5}) (\w+) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
LISTING = re.findall(r"^\| ([01]),? .*? \| (.*) \| (.*) \|$", PAGE.partition("## ListTopics")[2], re.MULTILINE)
ELSEWHERE = {"incarnations", "deletions"}
"""Arrays whose fields are in the file to which the page refers."""


def named(cell: str) -> list[str]:
    """Return the fields in a cell of the page."""
    return re.findall(r"`([a-z_]+)`", cell)


def in_schema(message: str, version: int) -> list[str]:
    """Return the fields of the schema that the page shows: depth first, tagged fields last."""
    schema = native.message_schema(message)
    assert schema is not None
    structs = {struct.name: struct for struct in schema.structs}

    def fields(name: str) -> list[str]:
        found: list[str] = []
        for field in structs[name].fields:
            if field.versions[0] <= version <= field.versions[1]:
                found.append(field.name)
                inner = field.type_name.removeprefix("[]")
                if inner in structs and field.name not in ELSEWHERE:
                    found += fields(inner)
        return found

    return fields(message)


def test_the_tables_are_found() -> None:
    assert [name for _, name, *_ in OWN] == [
        "UndeleteTopics",
        "TruncateTopics",
        "DescribeTopicHistory",
        "DescribeDeletions",
        "PurgeTopics",
        "DescribeClusterState",
        "DeleteOffsets",
        "TransferQuorumLeader",
    ]
    assert [version for version, *_ in LISTING] == ["0", "1"]


@pytest.mark.parametrize(("key", "name", "request_cell", "response_cell"), OWN, ids=[name for _, name, *_ in OWN])
def test_own_requests(key: str, name: str, request_cell: str, response_cell: str) -> None:
    schema = native.message_schema(f"{name}Request")
    assert schema is not None
    assert schema.api_key == int(key)
    assert named(request_cell) == in_schema(f"{name}Request", 0)
    assert named(response_cell) == in_schema(f"{name}Response", 0)


@pytest.mark.checklist(310, 311)
@pytest.mark.parametrize(("version", "request_cell", "response_cell"), LISTING)
def test_list_topics(version: str, request_cell: str, response_cell: str) -> None:
    assert named(request_cell) == in_schema("ListTopicsRequest", int(version))
    assert named(response_cell) == in_schema("ListTopicsResponse", int(version))
