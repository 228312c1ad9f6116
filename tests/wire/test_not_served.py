"""Each request of Kafka 4.4 is served in every version that Kafka's clients send, or docs/clients.md has the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pybroker.native import message_names
from pybroker.protocol import messages as m
from pybroker.protocol.api_keys import ApiKey
from tests.oracle.test_oracle import Oracle
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


class Row(NamedTuple):
    """A row of the table "Not served"."""

    reason: str
    requests: frozenset[str]
    instead: str


def _rows() -> list[Row]:
    section = PAGE.read_text().partition("## Not served")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(reason, frozenset(re.split(r",\s*", names)), instead) for reason, names, instead in cells]


def _name(key: int) -> str:
    return "".join(map(str.title, ApiKey(key).name.split("_")))


def _served(broker: BrokerProcess) -> dict[str, range]:
    """Return versions by name, as in ApiVersions."""
    with WireClient(broker.port) as client:
        rows = client.call(m.ApiVersionsRequest(), 0).api_keys
    return {_name(row.api_key): range(row.min_version, row.max_version + 1) for row in rows}


def test_what_is_not_advertised_is_named_once_with_its_reason(broker: BrokerProcess) -> None:
    known = set(message_names())  # clients cannot send the requests between brokers
    missing = {_name(key) for key in ApiKey} - set(_served(broker))
    rows = _rows()
    assert sorted(name for row in rows for name in row.requests) == sorted(
        name for name in missing if f"{name}Request" in known
    )
    assert [row for row in rows if not row.reason or not row.instead] == []


def test_what_is_served_has_every_version_of_kafka_and_no_other(broker: BrokerProcess) -> None:
    """As the classes of Kafka 4.4 know them; versions that they call unstable are left out. Older ones than theirs are
    served to older clients."""
    served, named = _served(broker), {name for row in _rows() for name in row.requests}
    kafka = {name: versions for name, versions in Oracle("4.4.0").apis().items() if versions}
    assert len(kafka) > 80
    for name, versions in kafka.items():
        if name not in named:
            assert set(versions) <= set(served[name]), name
            assert served[name][-1] == versions[-1], name
    assert {name for name in named if name in kafka} <= set(kafka) - set(served)
