"""The client of a forwarded request on its way to the controller."""

from __future__ import annotations

import pytest

from pybroker.protocol.caller import Caller, UnreadableCallerError, packed_caller, unpacked_caller


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "::1", "2001:db8::7"])
def test_it_arrives_as_it_was(host: str) -> None:
    caller = Caller("User:Zoë", host)
    assert unpacked_caller(*packed_caller(caller)) == caller


def test_an_address_is_sent_as_kafka_sends_it() -> None:
    assert packed_caller(Caller("User:a", "127.0.0.1")) == (b"User:a", bytes([127, 0, 0, 1]))
    assert len(packed_caller(Caller("User:a", "::1"))[1]) == 16


def test_a_broker_asks_for_nobody() -> None:
    assert packed_caller(None) == (None, b"")
    assert unpacked_caller(None, b"") is None


def test_what_is_no_address_is_nobodys() -> None:
    assert unpacked_caller(*packed_caller(Caller("User:a", "somewhere"))) == Caller("User:a", "")


@pytest.mark.parametrize(("principal", "address"), [(b"\xff", b""), (b"User:a", b"12345")])
def test_fields_that_name_nobody(principal: bytes, address: bytes) -> None:
    with pytest.raises(UnreadableCallerError):
        unpacked_caller(principal, address)
