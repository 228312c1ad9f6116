"""docs/clients.md names every request that is not served, and none that is."""

from __future__ import annotations

from pathlib import Path

from pybroker.native import message_names
from pybroker.protocol import messages as m
from pybroker.protocol.api_keys import ApiKey
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


def _names(page: str) -> set[str]:
    """The second column of the table under "Not served"."""
    section = page.partition("## Not served")[2].partition("\n## ")[0]
    cells = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")][1:]
    return {name.strip() for cell in cells for name in cell.split(",")}


def test_what_is_not_advertised_is_named(broker: BrokerProcess) -> None:
    with WireClient(broker.port) as client:
        served = {each.api_key for each in client.call(m.ApiVersionsRequest(), 0).api_keys}
    known = set(message_names())  # what only brokers say is nothing that a client could ask for
    missing = {"".join(map(str.title, key.name.split("_"))) for key in ApiKey if key not in served}
    missing = {name for name in missing if f"{name}Request" in known}
    named = _names(PAGE.read_text())
    assert missing == named
