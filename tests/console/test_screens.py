"""Every screen in a real browser: accessible according to axe-core, in both themes, by keyboard, without script
errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pybroker import Broker
from pybroker.client import (
    AclBinding,
    AclOperation,
    AdminClient,
    Consumer,
    NewTopic,
    Producer,
    ResourceType,
    ScramUpsertion,
    TransactionalProducer,
    Uuid,
)
from pybroker.console import routes
from tests.console.chromium import ENTER, TAB, Chromium
from tests.console.console_process import Browserless, text_of


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(name, 2, 1) for name in ("words", "other", "gone")])
        for number in range(10):
            await producer.send("words", f"value {number}", key="key", partition=0, headers={"a": "b"})
        await admin.delete_topics(["gone"])
        await admin.create_acls([AclBinding(ResourceType.TOPIC, "words", "User:alice", AclOperation.READ)])
        await admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])
        async with Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["words"])
            await consumer.getone()
            await consumer.commit()
        transactional = TransactionalProducer({**settings, "transactional.id": "copier"})
        async with transactional, transactional.transaction():
            await transactional.enqueue("other", "in a transaction")


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """A broker with data for every screen."""
    settings = {
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings) as broker:
        asyncio.run(_fill(broker.bootstrap))
        yield broker


SCREENS = {
    "/": "Healthy",
    "/brokers": "Brokers and disks",
    "/brokers/1": "offsets.topic.num.partitions",
    "/brokers/1?changed=1": "authorizer.class.name",
    "/live": "Records in",
    "/topics": "words",
    "/topics?internal=1": "__consumer_offsets",
    "/topics/new": "Create a topic",
    "/topics/words": "Next offset",
    "/topics/words/settings": "retention.ms",
    "/topics/words/settings?edit=retention.ms": "Save",
    "/topics/words/groups": "readers",
    "/topics/words/history": "live",
    "/topics/gone/history": "Ended",
    "/topics/words/messages": "value 9",
    "/topics/words/messages?partition=9": "The partition does not exist",
    "/topics/words/record?partition=0&offset=0": "Leader epoch",
    "/topics/words/tail": "Live",
    "/topics/words/produce": "Write a record",
    "/topics/words/delete": "What would be removed",
    "/groups": "readers",
    "/group?id=readers": "Positions",
    "/group/reset?id=readers&goal=earliest": "preview",
    "/deletions": "gone",
    "/ingests": "No ingest is open",
    "/transactions": "copier",
    "/acls": "User:alice",
    "/users": "alice",
    "/quotas": "No quota is set",
    "/nowhere": "The page /nowhere does not exist",
}


@pytest.mark.parametrize("path", SCREENS)
def test_a_screen(browser: Chromium, address: str, path: str) -> None:
    browser.open(address + "/")
    for theme in ("light", "dark"):
        browser.script("localStorage.setItem('theme', arguments[0])", theme)
        browser.open(address + path)
        browser.until(lambda: SCREENS[path] in browser.text, SCREENS[path])
        assert browser.script("return document.documentElement.dataset.theme") == theme
        assert browser.violations() == [], theme
    assert browser.complaints() == []
    assert browser.script("return document.documentElement.scrollWidth <= window.innerWidth"), "it is too wide"


PHONE = 360
ALIGNMENT = """
const wrong = [], number = /^(≥ )?-?[\\d,.]+( ([KMGT]i)?B)?( %)?$/, time = /^(–|\\d+ (ms|s|min|h|d)( .*)?|[\\d:]{8})$/;
for (const table of document.querySelectorAll("table")) {
  if (!table.checkVisibility()) continue;
  const whole = (row) => [...row.cells].every((cell) => cell.colSpan === 1);
  const rows = [...table.tBodies[0].rows].filter(whole);
  [...table.querySelectorAll("thead th")].forEach((head, column) => {
    const cells = rows.map((row) => row.cells[column]).filter(Boolean);
    const texts = cells.map((cell) => cell.innerText.trim());
    const isNumeric = texts.some((text, at) => number.test(text) && !cells[at].matches(".mono:not(.n)"));
    if (!isNumeric && texts.every((text) => time.test(text))) return;
    for (const cell of [head, ...cells]) {
      const align = getComputedStyle(cell).textAlign;
      if ((align === "right") !== isNumeric) wrong.push(`${head.innerText}: ${cell.innerText} is ${align}`);
    }
  });
}
return wrong;
"""
FOCUS = """
const main = document.querySelector("main");
const reachable = [...main.querySelectorAll("a, button, input, select, textarea, summary")];
const first = reachable.find((e) => e.checkVisibility());
return [document.activeElement, first, ...document.querySelectorAll("[autofocus]")]
  .filter((e) => e && e.matches(".danger, .danger *")).map((e) => e.outerHTML);
"""


@pytest.mark.parametrize("path", SCREENS)
def test_a_screen_fits_a_phone(browser: Chromium, address: str, path: str) -> None:
    """Only tables scroll, each in its own box."""
    with browser.width(PHONE):
        browser.open(address + path)
        browser.until(lambda: SCREENS[path] in browser.text, SCREENS[path])
        widest = browser.script(
            "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, .skip, .fold, pre')"
            " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"
        )
        assert widest == []
        assert browser.script("return document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("path", SCREENS)
def test_numbers_are_right_and_text_is_left(browser: Chromium, address: str, path: str) -> None:
    browser.open(address + path)
    browser.until(lambda: SCREENS[path] in browser.text, SCREENS[path])
    assert browser.script(ALIGNMENT) == []


@pytest.mark.parametrize("path", SCREENS)
def test_no_destructive_button_has_the_focus(browser: Chromium, address: str, path: str) -> None:
    """No such button gets the keyboard focus first, either."""
    browser.open(address + path)
    assert browser.script(FOCUS) == []


def test_every_address_is_looked_at() -> None:
    """Add each new screen to this test, unless it is a file or a stream."""
    looked_at = {path.partition("?")[0].replace("/words", "/{name}").replace("/gone", "/{name}") for path in SCREENS}
    looked_at |= {"/brokers/{id}", "/topic-ids/{id}", "/live/curves"}
    looked_at |= {"/topics/{name}/export/{kind}", "/topics/{name}/tail/events"}
    assert set(routes.SHOWN) - looked_at == set()


def test_by_keyboard(browser: Chromium, address: str) -> None:
    """A person goes from the overview to a record without a mouse, and always sees which element has the focus."""
    browser.open(address + "/")
    browser.press(TAB)
    assert browser.focused() == "Skip to the content"
    browser.press(ENTER)
    browser.until(lambda: browser.script("return document.activeElement.id") == "main")
    browser.press("/")
    browser.until(lambda: browser.focused() == "q")
    browser.press("words", ENTER)
    browser.until(lambda: browser.path.startswith("/topics?q=words"))
    browser.open(address + browser.path)
    _tab_to(browser, "words")
    outline = browser.script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    browser.press(ENTER)
    browser.until(lambda: browser.path == "/topics/words")
    _tab_to(browser, "Messages")
    browser.press(ENTER)
    browser.until(lambda: browser.path.startswith("/topics/words/messages"))
    _tab_to(browser, "Read")
    browser.press(ENTER)
    browser.until(lambda: "seek=newest" in browser.path and browser.all(".records tbody tr"))


def _tab_to(browser: Chromium, what: str) -> None:
    for _ in range(80):
        browser.press(TAB)
        if browser.focused() == what:
            return
    raise AssertionError(f"the keyboard does not come to {what}")


def test_the_theme_is_switched(browser: Chromium, address: str) -> None:
    browser.open(address + "/")
    browser.script("localStorage.removeItem('theme')")
    browser.open(address + "/")

    def background() -> str:
        return str(browser.script("return getComputedStyle(document.body).backgroundColor"))

    system = background()
    seen = {system}
    for theme in ("light", "dark"):
        browser.click("#theme")
        assert browser.one("#theme").text == f"Theme: {theme}"
        seen.add(background())
    assert len(seen) == 2
    browser.open(address + "/topics")
    assert browser.one("#theme").text == "Theme: dark"
    browser.click("#theme")
    assert background() == system


def test_a_table_is_sorted_by_its_head(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics")
    browser.click("th:nth-child(5) button")
    assert browser.one("tbody td").text == "words"
    assert browser.one("th:nth-child(5)").get_attribute("aria-sort") == "descending"
    browser.click("th:nth-child(5) button")
    assert browser.one("tbody td").text == "other"


def test_undelete_under_another_name(browser: Chromium, address: str) -> None:
    browser.open(address + "/deletions")
    assert browser.one("[data-until-ms]").text.count(":") == 2
    browser.type("table input[name=name]", "words")
    browser.click("table button[aria-label^=Undelete]")
    browser.until(lambda: "TOPIC_ALREADY_EXISTS" in browser.text)
    browser.type("table input[name=name]", "back")
    browser.click("table button[aria-label^=Undelete]")
    browser.until(lambda: browser.path.startswith("/topics/back"))
    assert "The topic was undeleted." in browser.text


def test_what_cannot_be_purged_is_said(person: Browserless) -> None:
    """The case is a deleted topic, or data that brokers found, after the person has typed its id."""
    nobodys = str(Uuid.random())
    for address in ("/deletions/purge", "/deletions/discard"):
        for typed, words in (("", "The text differs from the id"), (nobodys, "UNKNOWN_TOPIC_ID")):
            answer = person.post(address, {"topic_id": nobodys, "typed": typed})
            assert answer.status == 422
            assert words in text_of(answer.text)


def remove(browser: Chromium, what: str) -> None:
    """The first click only shows the button that removes."""
    button = f'button[aria-label^="Confirm: remove {what}"]'
    assert not browser.all(button)[0].is_displayed()
    browser.click(f'summary[aria-label^="Remove {what}"]')
    browser.click(button)


def test_entries_and_users_come_and_go(browser: Chromium, address: str) -> None:
    hostile = "User:<script>document.title='owned'</script>"
    browser.open(address + "/acls")
    browser.click("details.more summary")
    browser.type("details.more input[name=principal]", hostile)
    browser.type("details.more input[name=name]", "words")
    browser.click("details button.main")
    browser.until(lambda: "The entry was added." in browser.text)
    assert hostile in browser.text
    remove(browser, hostile[:12])
    browser.until(lambda: "The entry was removed." in browser.text)
    assert hostile not in browser.text

    browser.open(address + "/users")
    browser.click("details.more summary")
    browser.type("details.more input[name=user]", "bob")
    browser.type("details.more input[name=password]", "bob's secret")
    browser.click("details button.main")
    browser.until(lambda: "The password was set." in browser.text)
    assert "bob's secret" not in browser.script("return document.documentElement.outerHTML")
    remove(browser, "bob SCRAM-SHA-256")
    browser.until(lambda: "The password was removed." in browser.text)
    assert browser.driver.title != "owned"


def test_quotas_come_and_go(browser: Chromium, address: str) -> None:
    who = "<b>bob</b> "
    browser.open(address + "/quotas")
    browser.click("details.more summary")
    browser.type("details.more input[name=value]", "2048")
    browser.click("details button.main")
    browser.until(lambda: "Select a user, a client id" in browser.text)
    assert browser.violations() == []
    browser.type("details.more input[name=user]", who)
    browser.click("details.more input[name=client-id-default]")
    browser.click("details button.main")
    browser.until(lambda: "The quota was set." in browser.text)
    assert [cell.text for cell in browser.all("tbody td")][:5] == [
        who.strip(), "default", "–", "producer_byte_rate", "2.0 KiB/s"
    ]
    assert browser.violations() == []
    browser.click("details.more summary")
    browser.type("details.more input[name=ip]", "not an address")
    browser.type("details.more input[name=value]", "1")
    browser.click("details button.main")
    browser.until(lambda: "INVALID_REQUEST" in browser.text)
    remove(browser, "producer_byte_rate User <b>bob</b>")
    browser.until(lambda: "The quota was removed." in browser.text)
    assert "No quota is set" in browser.text


def test_where_a_setting_comes_from_is_in_sight(browser: Chromium, address: str) -> None:
    """The source is visible even beside a value that is wider than the page."""
    long = ",".join(f"PLAINTEXT://broker-{number}.example:9092" for number in range(40))
    browser.open(address + "/brokers/1")
    browser.script("document.querySelector('td.long').textContent = arguments[0]", long)
    assert browser.script(
        "const box = document.querySelector('td.long').closest('.scroll'); return box.scrollWidth <= box.clientWidth"
    )


def test_pages_are_served_without_scripts(address: str) -> None:
    with Chromium("--blink-settings=scriptEnabled=false") as plain:
        plain.open(address + "/topics/words/messages")
        assert "value 9" in plain.text
        plain.open(address + "/deletions")
        assert plain.all("table") or "No deleted topic has data" in plain.text
