"""Accepted and refused requests, by plain HTTP: foreign forms, foreign host names, large bodies; headers of all
responses."""

from __future__ import annotations

import re

import pytest

from pybroker import Broker
from pybroker.client import ClientConfigError
from pybroker.console import routes
from pybroker.console.console_settings import ConsoleSettings
from tests.console.console_process import COOKIE, Browserless, console, text_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
CHANGES = [path.replace("{name}", "orders-0000") for path in (*routes.DONE, "/logout", "/login")]


@pytest.mark.parametrize("path", CHANGES)
def test_no_change_without_the_token(person: Browserless, path: str) -> None:
    person.get("/topics/new")
    assert person.ask("POST", path, b"name=x", FORM).status == 403
    assert person.ask("POST", path, b"name=x&csrf=" + b"0" * 64, FORM).status == 403


def test_another_persons_token_is_worth_nothing(person: Browserless, address: str) -> None:
    other = Browserless(address)
    stolen = other.csrf()
    person.get("/topics/new")
    assert person.ask("POST", "/topics/new", f"name=x&csrf={stolen}".encode(), FORM).status == 403
    assert person.ask("POST", "/topics/new", f"name=x&csrf={stolen}".encode(), {**FORM, "Cookie": ""}).status == 403


def test_another_sites_form_is_refused_even_with_a_token(person: Browserless) -> None:
    token = person.csrf()
    headers = {**FORM, "Sec-Fetch-Site": "cross-site"}
    assert person.ask("POST", "/topics/new", f"name=x&csrf={token}".encode(), headers).status == 403


def test_nothing_changes_by_get(person: Browserless) -> None:
    for path in routes.DONE:
        if path not in routes.SHOWN:
            assert person.get(path.replace("{name}", "orders-0000")).status in (404, 405)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", ""])
def test_foreign_host_names_are_refused(person: Browserless, host: str) -> None:
    assert person.ask("GET", "/", headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:8080", "10.0.0.1:80"])
def test_addresses_are_not_foreign(person: Browserless, host: str) -> None:
    assert person.ask("GET", "/login", headers={"Host": host}).status == 303


def test_large_forms_are_refused(person: Browserless) -> None:
    person.get("/topics/new")
    assert person.ask("POST", "/topics/new", b"a" * (3 << 20), FORM).status == 413
    chunked = person.ask("POST", "/topics/new", iter([b"a" * (1 << 20)] * 3), FORM)  # type: ignore[arg-type]
    assert chunked.status == 413


def test_headers_of_every_page(person: Browserless) -> None:
    for path in ("/", "/topics", "/nowhere", "/static/console.css", "/topics/nobody"):
        headers = person.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert headers["cache-control"] == "no-store" or path.startswith("/static")


def test_pages_hold_no_inline_script_and_nothing_from_elsewhere(person: Browserless) -> None:
    for path in ("/", "/topics", "/topics/orders-0000", "/topics/orders-0000/settings", "/deletions", "/brokers/1"):
        text = person.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=)", text)
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", text)
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text)


def test_the_cookie(person: Browserless) -> None:
    (cookie,) = person.get("/").cookies
    assert cookie.startswith(f"{COOKIE}=")
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()


def test_words_of_a_link_do_not_get_onto_a_page(person: Browserless) -> None:
    hostile = "%3Cscript%3Ealert(1)%3C/script%3E"
    for path in ("/topics?q=", "/topics?done=", "/topics/", "/topic-ids/", "/deletions?q=", "/login?next="):
        assert "<script>alert" not in person.get(path + hostile).text


def test_beyond_this_machine_only_with_login_or_by_order(filled: Broker) -> None:
    config = {"bootstrap.servers": filled.bootstrap}
    with pytest.raises(ClientConfigError, match="--without-login"):
        ConsoleSettings(config, host="0.0.0.0").check()
    ConsoleSettings(config, host="0.0.0.0", without_login=True).check()
    ConsoleSettings({**config, "security.protocol": "SASL_SSL"}, host="0.0.0.0").check()
    ConsoleSettings(config, host="::1").check()


def test_a_cluster_that_is_not_there_is_said_in_words() -> None:
    with console("127.0.0.1:1") as address:
        answer = Browserless(address).get("/")
    assert answer.status == 502
    assert "cannot connect to 127.0.0.1:1" in text_of(answer.text)
