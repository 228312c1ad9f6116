"""Native code gets only changed quotas, in whole numbers, and the addresses of host names."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta
from pybroker.broker.metadata.quota_nodes import path_of
from pybroker.broker.replicas.quota_publisher import ClientQuotas
from pybroker.native import ClientQuota

EMPTY = ClusterImage.initial(1)


class Native:
    """Record the published quotas, as `NativeBroker.quotas` gets them."""

    def __init__(self) -> None:
        self.quotas = SimpleNamespace(publish=self._publish)
        self.told: list[tuple[list[tuple[Any, ...]], list[tuple[str | None, float | None]], bool]] = []

    def _publish(self, *, clients: list[ClientQuota], addresses: list[tuple[Any, Any]], full: bool) -> None:
        self.told.append(([fields(one) for one in clients], addresses, full))


def fields(quota: ClientQuota) -> tuple[Any, ...]:
    return (
        quota.user,
        quota.client_id,
        quota.producer_byte_rate,
        quota.consumer_byte_rate,
        quota.request_percentage,
        quota.controller_mutation_rate,
    )


def node(config: Mapping[str, str]) -> ConfigImage:
    return ConfigImage(dict(config), 1)


def clients(**config: str) -> ImageDelta:
    return ImageDelta(quotas={path_of((("client-id", "app"),)): node(config)})


def address(name: str | None, **config: str) -> ImageDelta:
    return ImageDelta(quotas={path_of((("ip", name),)): node(config)})


async def told(before: ClusterImage, *changes: ImageDelta | ClusterImage) -> list[Any]:
    native = Native()
    quotas = ClientQuotas(native)  # type: ignore[arg-type]  # the part of it that is used
    for change in changes:
        after = change if isinstance(change, ClusterImage) else before.apply(change)
        await quotas.apply_change(before, after, change)
        before = after
    return native.told


async def test_a_quota_is_set_changed_and_removed() -> None:
    removed = (None, "app", None, None, None, None)
    assert await told(EMPTY, clients(producer_byte_rate="10"), clients(request_percentage="2.5"), clients()) == [
        ([(None, "app", 10.0, None, None, None)], [], False),
        ([(None, "app", None, None, 2.5, None)], [], False),
        ([removed], [], False),
    ]


async def test_defaults_and_both_parts() -> None:
    both = path_of((("client-id", None), ("user", "alice")))
    change = ImageDelta(
        quotas={path_of((("user", None),)): node({"consumer_byte_rate": "1"}), both: node({"producer_byte_rate": "2"})}
    )
    assert await told(EMPTY, change) == [
        ([("", None, None, 1.0, None, None), ("alice", "", 2.0, None, None, None)], [], False)
    ]


async def test_a_password_is_no_quota() -> None:
    """Native code gets an update only if the user's quotas are removed together with the node."""
    credentials = {"SCRAM-SHA-256": "salt=…"}
    first = ImageDelta(users={"alice": node(credentials)})
    second = ImageDelta(users={"alice": node({**credentials, "producer_byte_rate": "5"})})
    assert await told(EMPTY, first, second, first, first) == [
        ([("alice", None, 5.0, None, None, None)], [], False),
        ([("alice", None, None, None, None, None)], [], False),
    ]


async def test_everything_is_told_anew() -> None:
    image = EMPTY.apply(clients(producer_byte_rate="10")).apply(ImageDelta(users={"bob": node({})}))
    (((clients_told), addresses, full),) = await told(EMPTY, image)
    assert sorted(clients_told, key=str) == [
        ("bob", None, None, None, None, None),
        (None, "app", 10.0, None, None, None),
    ]
    assert (addresses, full) == ([], True)
    assert await told(image, EMPTY) == [([], [], True)], "an empty table is one as well"


async def test_what_is_no_quota_changes_nothing() -> None:
    parent = ImageDelta(quotas={"/config/users/alice/clients": node({})})
    assert await told(EMPTY, parent, ImageDelta(floors={"a": 1})) == []


@pytest.mark.parametrize("text", ["nonsense", "0", "-1", "nan"])
async def test_damaged_ones_are_not_in_force(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert await told(EMPTY, clients(producer_byte_rate=text)) == [([(None, "app", None, None, None, None)], [], False)]
    assert "producer_byte_rate" in caplog.text
    assert repr(text) in caplog.text


async def test_addresses() -> None:
    rate = {"connection_creation_rate": "3"}
    changes = (address("127.0.0.1", **rate), address(None, **rate), address("127.0.0.1"))
    assert [addresses for _, addresses, _ in await told(EMPTY, *changes)] == [
        [("127.0.0.1", 3.0)],
        [(None, 3.0)],
        [("127.0.0.1", None)],
    ]


async def test_a_host_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved when the quota is set; its earlier addresses lose their quota."""
    hosts = {"web": ["10.0.0.1", "fe80::1%eth0"]}

    def getaddrinfo(name: str, *_: object, **__: object) -> list[Any]:
        if name not in hosts:
            raise socket.gaierror("not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in hosts[name]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    native = Native()
    quotas = ClientQuotas(native)  # type: ignore[arg-type]  # the part of it that is used
    rate = {"connection_creation_rate": "3"}
    await quotas.apply_change(EMPTY, EMPTY, address("web", **rate))
    hosts["web"] = ["10.0.0.2"]
    await quotas.apply_change(EMPTY, EMPTY, address("web", **rate))
    await quotas.apply_change(EMPTY, EMPTY, address("web"))
    await quotas.apply_change(EMPTY, EMPTY, address("unknown", **rate))
    assert [addresses for _, addresses, _ in native.told] == [
        [("10.0.0.1", 3.0), ("fe80::1", 3.0)],
        [("10.0.0.1", None), ("fe80::1", None), ("10.0.0.2", 3.0)],
        [("10.0.0.2", None)],
    ]
