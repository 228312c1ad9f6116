"""People log in as the broker's users; the broker's ACLs decide what they may do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.client import AclBinding, AclOperation, AdminClient, NewTopic, ResourceType, TopicPartition
from pybroker.console.web.login_sessions import SESSIONS_MAX, Sessions
from tests.console.chromium import Chromium
from tests.console.console_process import COOKIE, Browserless, console, properties, text_of
from tests.security.kit import ROOT, password_of, port_of, secure_broker

LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


async def _fill(bootstrap: str) -> None:
    root = {**LOGIN, "bootstrap.servers": bootstrap, "sasl.username": ROOT, "sasl.password": password_of(ROOT)}
    async with AdminClient(root) as admin:
        await admin.create_topics([NewTopic("hers", 1, 1), NewTopic("secret", 1, 1)])
        await admin.create_acls(
            [
                AclBinding(ResourceType.TOPIC, "hers", "User:alice", AclOperation.DESCRIBE),
                AclBinding(ResourceType.TOPIC, "hers", "User:alice", AclOperation.WRITE),
                AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:bob", AclOperation.DESCRIBE),
            ]
        )
        await admin.alter_consumer_group_offsets("readers", {TopicPartition("hers", 0): 0})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with users and an authorizer."""
    with secure_broker(["alice", "bob"]) as running:
        asyncio.run(_fill(f"127.0.0.1:{port_of(running, 'SASL')}"))
        yield running


@pytest.fixture(scope="module")
def address(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a console whose settings file has credentials, too; no user gets them."""
    mine = {"sasl.username": ROOT, "sasl.password": password_of(ROOT)}
    file = properties(Path(tmp_path_factory.mktemp("console")) / "client.properties", {**LOGIN, **mine})
    with console(f"127.0.0.1:{port_of(broker, 'SASL')}", "--command-config", str(file)) as where:
        yield where


def logged_in(address: str, user: str) -> Browserless:
    """A user who has logged in."""
    person = Browserless(address)
    answer = person.post("/login", {"user": user, "password": password_of(user), "next": "/topics"}, form="/login")
    assert (answer.status, answer.headers["location"]) == (303, "/topics")
    return person


def test_nothing_is_shown_before_the_login(person: Browserless) -> None:
    for path in ("/", "/topics", "/topics/hers/export/ndjson", "/live/curves", "/topics/hers/tail/events"):
        answer = person.get(path)
        assert answer.status == 303
        assert answer.headers["location"].startswith("/login?next=")
    assert person.post("/topics/new", {"name": "x"}, form="/login").headers["location"].startswith("/login")


def test_wrong_passwords(person: Browserless) -> None:
    for user, password in ((ROOT, "wrong"), ("nobody", "x"), (ROOT, "")):
        answer = person.post("/login", {"user": user, "password": password}, form="/login")
        assert answer.status in (401, 422)
        assert person.get("/topics").status == 303


def test_permissions_are_the_brokers(address: str) -> None:
    alice, root = logged_in(address, "alice"), logged_in(address, ROOT)
    seen = text_of(alice.get("/topics").text)
    assert "hers" in seen
    assert "secret" not in seen
    assert "secret" in text_of(root.get("/topics").text)
    assert alice.get("/topics/secret").status == 404
    assert alice.post("/topics/hers/produce", {"value": "from alice"}, form="/topics/hers/produce").status == 303
    assert "TOPIC_AUTHORIZATION_FAILED" in text_of(alice.get("/topics/hers/messages").text)
    refused = alice.post("/topics/new", {"name": "another"})
    assert refused.status == 422
    assert "AUTHORIZATION_FAILED" in text_of(refused.text)
    deleted = alice.post("/topics/hers/delete", {"typed": "hers", "what": "delete"})
    assert deleted.status == 422
    assert "CLUSTER_AUTHORIZATION_FAILED" in text_of(alice.get("/acls").text)
    assert "User:alice" in text_of(root.get("/acls").text)
    assert "from alice" in text_of(root.get("/topics/hers/messages").text)


def test_what_a_person_may_not_see_is_a_dash_and_no_zero(address: str) -> None:
    """The person sees the group in the list, but not its positions, and a topic without its size."""
    assert "readers Empty classic – –" in text_of(logged_in(address, "bob").get("/groups").text)
    root = text_of(logged_in(address, ROOT).get("/groups").text)
    assert re.search(r"readers Empty classic 1 \d+ ", root), root
    hers = text_of(logged_in(address, "alice").get("/topics?q=hers").text)
    assert re.search(r"hers \S+ 1 1 \d+ – ok", hers), hers


def test_no_page_holds_a_secret(address: str) -> None:
    root = logged_in(address, ROOT)
    for path in ("/", "/brokers/1", "/users", "/acls", "/topics/hers"):
        assert password_of(ROOT) not in root.get(path).text
        assert password_of("alice") not in root.get(path).text


def test_a_login_takes_a_new_cookie_and_a_logout_ends_it(address: str) -> None:
    person = Browserless(address)
    person.get("/login")
    before = person.cookies[COOKIE]
    person.post("/login", {"user": ROOT, "password": password_of(ROOT)}, form="/login")
    token = person.cookies[COOKIE]
    assert token != before
    assert person.post("/logout", {}).status == 303
    person.cookies[COOKIE] = token
    assert person.get("/topics").status == 303


def test_a_link_does_not_lead_elsewhere_after_the_login(address: str) -> None:
    for place in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"):
        person = Browserless(address)
        fields = {"user": ROOT, "password": password_of(ROOT), "next": place}
        assert person.post("/login", fields, form="/login").headers["location"] == "/"


def test_in_a_browser(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics?q=he")
    browser.until(lambda: browser.path.startswith("/login"))
    assert browser.violations() == []
    browser.type("input[name=user]", "alice")
    browser.type("input[name=password]", password_of("alice"))
    browser.click("button.main")
    browser.until(lambda: browser.path == "/topics?q=he")
    assert "hers" in browser.text
    browser.click("form[action='/logout'] button")
    browser.until(lambda: "You are logged out." in browser.text)


async def test_sessions_end_and_are_few() -> None:
    clock = [0.0]
    sessions = Sessions(60.0, lambda: clock[0])
    first = sessions.new_token()
    await sessions.begin(first, "alice", None)
    clock[0] = 59.0
    assert await sessions.find(first) is not None
    clock[0] = 118.0
    assert await sessions.find(first) is not None
    clock[0] = 179.0
    assert await sessions.find(first) is None
    for _ in range(SESSIONS_MAX + 5):
        await sessions.begin(sessions.new_token(), None, None)
    assert len(sessions) == SESSIONS_MAX
