"""A console in a child process, and a client for plain HTTP requests."""

from __future__ import annotations

import contextlib
import html
import http.client
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.support.brokers import end_with_the_tests

START_S = 120.0
COOKIE = "pybroker_console"


@dataclass
class Answer:
    """A response: status, headers (names in lower case), text."""

    status: int
    headers: Mapping[str, str]
    text: str
    cookies: list[str] = field(default_factory=list)


class Browserless:
    """A person with a cookie jar but without a browser."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.cookies: dict[str, str] = {}

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request; follow no redirects."""
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        with contextlib.closing(connection):
            sent = dict(headers or {})
            if self.cookies:
                sent.setdefault("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        set_cookies = response.headers.get_all("set-cookie") or []
        for each in set_cookies:
            name, _, rest = each.partition("=")
            self.cookies[name] = rest.partition(";")[0]
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, text, set_cookies)

    def get(self, path: str) -> Answer:
        """Get a page."""
        return self.ask("GET", path)

    def csrf(self, path: str = "/topics/new") -> str:
        """Return the hidden fields of a form."""
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get(path).text)
        assert found, "no form there"
        return found[1]

    def post(self, path: str, fields: Mapping[str, str], *, form: str = "/topics/new") -> Answer:
        """Send a form with its token; `form`: a page that contains one."""
        data = urlencode({"csrf": self.csrf(form), **fields}).encode()
        return self.ask("POST", path, data, {"Content-Type": "application/x-www-form-urlencoded"})


def text_of(page: str) -> str:
    """Return the visible text."""
    without_marks = re.sub(r"</?mark>", "", page)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", without_marks)))


@contextlib.contextmanager
def console(bootstrap: str, *options: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run `pybroker console` on a free port; yield its address, without the last slash."""
    command = [sys.executable, "-m", "pybroker", "console", "--bootstrap-server", bootstrap, "--listen", "127.0.0.1:0"]
    child = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=end_with_the_tests,  # noqa: PLW1509 (one call of libc, no lock is taken)
        env={**os.environ, **(env or {})},
    )
    try:
        yield _address(child)
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _address(child: subprocess.Popen[bytes]) -> str:
    assert child.stdout is not None
    give_up = time.monotonic() + START_S
    said = b""
    while time.monotonic() < give_up:
        if select.select([child.stdout], [], [], 0.2)[0]:
            read = os.read(child.stdout.fileno(), 4096)
            said += read
            found = re.search(rb"is at (https?://\S+)/\s", said)
            if found:
                return found[1].decode()
            if not read:
                break
    raise RuntimeError(f"the console did not start: {said.decode()}")


def properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a file for --command-config."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
