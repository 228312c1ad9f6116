"""`pybroker produce` and `pybroker consume` against a running broker, each call a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.cli.records import json_records, offset_specs, template
from pybroker.client import NewTopic, blocking
from pybroker.native import ConsumerRecord
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

LIMIT_S = 120.0
FOR_EVER = {"retention.ms": "-1"}
"""Some records are old, and retention could remove them at any moment."""
Records = Callable[..., bytes]


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> Iterator[blocking.AdminClient]:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        yield admin


@pytest.fixture
def topic(admin: blocking.AdminClient) -> str:
    """Create a topic with two partitions."""
    name = unique("records")
    admin.create_topics([NewTopic(name, 2, config=FOR_EVER)])
    return name


@pytest.fixture
def run(broker: BrokerProcess) -> Records:
    """Run a command; return its stdout, or with a `code` its stderr."""

    def command(*arguments: str, stdin: bytes = b"", code: int = 0) -> bytes:
        done = CliRunner().invoke(cli, [*arguments, "--bootstrap-server", broker.bootstrap], input=stdin)
        assert done.exit_code == code, done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.stderr_bytes if code else done.stdout_bytes

    return command


@contextlib.contextmanager
def child(broker: BrokerProcess, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command as a separate process."""
    command = [sys.executable, "-m", "pybroker", *arguments, "--bootstrap-server", broker.bootstrap]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def test_lines_become_records_and_records_lines(run: Records, topic: str, tmp_path: Path) -> None:
    run("produce", topic, "--partition", "0", stdin=b"one\n\ntwo\nthree without an end")
    assert run("consume", topic) == b"one\n\ntwo\nthree without an end\n"
    more = tmp_path / "more"
    more.write_bytes(b"four;five;")
    run("produce", topic, "--partition", "0", "--file", str(more), "--delimiter", ";")
    assert run("consume", topic, "--from", "4", "-D", "\\0") == b"four\0five\0"
    run("produce", topic, "--partition", "1", "--file", str(more), "--whole")
    assert run("consume", topic, "--partition", "1") == b"four;five;\n"


def test_keys_headers_and_tombstones(run: Records, topic: str) -> None:
    text = b"a:1\nb:2\na:\nno key\n"
    run("produce", topic, "-K", ":", "--null", "", "--header", "from=a test", "--header", "empty=", stdin=text)
    wanted = {b"a:1", b"b:2", b"a:-", b"-:no key"}
    assert set(run("consume", topic, "-K", ":", "--null", "-").splitlines()) == wanted
    shown = run("consume", topic, "--format", "%k|%K|%s|%S|%h|%%\\n").splitlines()
    assert set(shown) == {
        b"a|1|1|1|from=a test,empty=|%",
        b"b|1|2|1|from=a test,empty=|%",
        b"a|1||-1|from=a test,empty=|%",
        b"|-1|no key|6|from=a test,empty=|%",
    }


def test_json_lines_are_copied_as_they_are(run: Records, admin: blocking.AdminClient, topic: str) -> None:
    """The copied values: bytes that are not text, timestamps, headers with the same name, empty and missing values."""
    given = [
        {"key": {"base64": "/w=="}, "value": "grün", "headers": [["h", "1"], ["h", None]], "timestamp_ms": 1000},
        {"key": None, "value": None, "headers": [], "timestamp_ms": 2000},
        {"key": "k", "value": {"base64": "AP8="}, "headers": [["b", {"base64": "/w=="}]], "timestamp_ms": 3000},
    ]
    text = "".join(json.dumps(each) + "\n" for each in given).encode()
    told = json.loads(run("produce", topic, "--json", "--partition", "1", stdin=text))
    topic_id = str(admin.describe_topics([topic]).all_topic_names()[topic].topic_id)
    assert told == {
        "topic": topic,
        "topic_id": topic_id,
        "rows": 3,
        "partitions": [{"partition": 1, "last": 2}],
    }
    first = run("consume", topic, "--json")
    shown = [json.loads(line) for line in first.splitlines()]
    assert [{name: each[name] for name in given[0]} for each in shown] == given
    assert [(each["topic"], each["topic_id"], each["partition"], each["offset"]) for each in shown] == [
        (topic, topic_id, 1, offset) for offset in range(3)
    ]
    copy = unique("copy")
    admin.create_topics([NewTopic(copy, 2, config=FOR_EVER)])
    run("produce", copy, "--json", "--keep-partitions", stdin=first)
    second = [json.loads(line) for line in run("consume", copy, "--json").splitlines()]
    assert [{**each, "topic": topic, "topic_id": topic_id} for each in second] == shown


def test_where_to_begin_and_where_to_stop(run: Records, topic: str, far_east: None) -> None:
    text = "".join(json.dumps({"value": str(n), "timestamp_ms": 1_000_000 + n}) + "\n" for n in range(10)).encode()
    run("produce", topic, "--json", "--partition", "0", stdin=text)

    def read(*arguments: str) -> str:
        return run("consume", topic, *arguments).decode().replace("\n", "")

    assert read() == "0123456789"
    assert read("--from", "end") == ""
    assert read("--from", "-3") == "789"
    assert read("--from", "+8") == "89"
    assert read("--from", "4", "--to", "6") == "45"
    assert read("--from", "@1000007") == "789"
    assert read("--to", "@1970-01-01T00:16:40.002+00:00") == "01"
    assert read("--to", "@1970-01-01T00:16:40.002") == "01", "without a zone it is UTC"
    assert read("--from", "@-1h") == ""
    assert read("--max", "3") == "012"
    assert read("--from", "100") == ""


def test_what_is_written_later_is_followed(run: Records, broker: BrokerProcess, topic: str) -> None:
    """Ctrl-C ends the command without output."""
    with child(broker, "consume", topic, "--follow") as following:
        for value in (b"one\n", b"two\n"):
            run("produce", topic, stdin=value)
            assert following.stdout is not None
            assert following.stdout.readline() == value
        following.send_signal(signal.SIGINT)
        assert following.communicate(timeout=LIMIT_S) == (b"", b"")
        assert following.returncode == 0


def test_each_line_that_is_typed_goes_at_once(run: Records, broker: BrokerProcess, topic: str) -> None:
    with child(broker, "produce", topic) as typing:
        assert typing.stdin is not None
        typing.stdin.write(b"typed\n")
        typing.stdin.flush()
        give_up = time.monotonic() + LIMIT_S
        while run("consume", topic) != b"typed\n":
            assert time.monotonic() < give_up
        assert typing.communicate(timeout=LIMIT_S) == (b"", f"Wrote 1 record to {topic}.\n".encode())
        assert typing.returncode == 0


def test_a_member_of_a_group_commits_what_is_out(run: Records, topic: str) -> None:
    group = unique("group")
    run("produce", topic, "--partition", "0", stdin=b"1\n2\n3\n4\n")
    assert run("consume", topic, "--group", group, "--max", "3") == b"1\n2\n3\n"
    assert run("consume", topic, "--group", group) == b"4\n"
    assert run("consume", topic, "--group", group) == b""


def test_many_records_go_through_pipes(broker: BrokerProcess, topic: str) -> None:
    text = b"".join(b"%d\n" % number for number in range(200_000))
    with child(broker, "produce", topic, "--partition", "0", "--command-property", "compression.type=zstd") as writing:
        assert writing.communicate(text, timeout=LIMIT_S) == (b"", f"Wrote 200000 records to {topic}.\n".encode())
    with child(broker, "consume", topic, "--partition", "0") as reading:
        assert reading.communicate(timeout=LIMIT_S) == (text, b"")


@pytest.mark.parametrize(
    ("command", "stdin", "said"),
    [
        ("produce {topic} --json", b'{"value": 1}\n[]\n', (1, b"stdin, line 2 is not a JSON object")),
        ("produce {topic} --json", b"{", (1, b"stdin, line 1 is not valid JSON: ")),
        ("produce {topic} --json", b'{"key": {"base64": "?"}}', (1, b"stdin, line 1 has an invalid key: not base64")),
        ("produce {topic} --json", b'{"headers": [1]}', (1, b"stdin, line 1 has invalid headers")),
        ("produce {topic} --json --keep-partitions", b'{"partition": "1"}', (1, b"partition: not a whole number")),
        ("produce {topic} --json --whole", b"", (2, b"--json cannot be combined with --whole")),
        ("produce {topic} --partition 7", b"x", (1, b"7")),
        ("produce {topic} --file /nowhere", b"", (1, b"/nowhere cannot be read: No such file")),
        ("produce {topic} --header x", b"", (2, b"expected NAME=VALUE")),
        ("produce {topic} --command-property acks=7", b"x", (1, b"acks")),
        ("consume {topic} --partition 7", b"", (1, b"has 2 partitions; partition 7 does not exist")),
        ("consume {topic}-nowhere", b"", (1, b"-nowhere")),
        ("consume {topic} --from tomorrow", b"", (2, b"'tomorrow' is not a position; expected start, end,")),
        ("consume {topic} --from @tomorrow", b"", (2, b"@tomorrow is not a time")),
        ("consume {topic} --from @1969-12-31", b"", (2, b"records have no times before 1970")),
        ("consume {topic} --from @9999999999999999999", b"", (2, b"time out of range; the latest is")),
        ("consume {topic} --to 3 --follow", b"", (2, b"--follow")),
        ("consume {topic} --group g --from 3", b"", (2, b"--group cannot be combined with")),
        ("consume {topic} --format %q", b"", (2, b"unknown format '%q'; valid: %s %v")),
        ("consume {topic} --format %", b"", (2, b"unknown format '%'")),
        ("consume {topic} -D \\q", b"", (2, b"is an unknown escape; valid:")),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    run: Records, topic: str, command: str, stdin: bytes, said: tuple[int, bytes]
) -> None:
    """The test checks the exit code, and a part of the line."""
    code, part = said
    told = run(*command.format(topic=topic).split(), stdin=stdin, code=code)
    assert part in told, told


def test_what_stands_before_a_wrong_line_is_written(run: Records, topic: str) -> None:
    run("produce", topic, "--json", stdin=b'{"value": "good"}\nbad\n', code=1)
    assert run("consume", topic) == b"good\n"


def test_a_record_that_is_too_large_is_told(run: Records, topic: str) -> None:
    told = run("produce", topic, stdin=b"small\n" + b"x" * 2_000_000, code=1)
    assert b"max.request.size" in told, told


def test_a_reader_that_has_enough_ends_it(broker: BrokerProcess, run: Records, topic: str) -> None:
    """The case is `pybroker consume … | head -1`."""
    run("produce", topic, stdin=b"a line that is long enough to fill a pipe\n" * 10_000)
    with child(broker, "consume", topic) as reading:
        assert reading.stdout is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert reading.wait(LIMIT_S) == 0
        assert reading.stderr is not None
        assert reading.stderr.read() == b""


def record(**fields: Any) -> ConsumerRecord:
    return ConsumerRecord("topic", 3, 7, **fields)


def test_what_the_letters_mean() -> None:
    shown = template.compiled("%t[%p]@%o %T %R\\x41\\t\\\\")(record(value=b"abc", timestamp=5))
    assert shown == b"topic[3]@7 5 \0\0\0\3A\t\\"


def test_a_line_gives_back_the_record() -> None:
    given = record(key=b"\xff", value=b"v", headers=(("h", None), ("h", b"\xfe")), timestamp=9)
    assert json_records.decode(json_records.encode(given)) == {
        "key": b"\xff",
        "value": b"v",
        "headers": (("h", None), ("h", b"\xfe")),
        "partition": 3,
        "timestamp_ms": 9,
    }
    assert json_records.decode(b'{"value": {"a": [1, "x"]}}')["value"] == b'{"a":[1,"x"]}'


def test_places() -> None:
    assert offset_specs.parse("-5") == offset_specs.OffsetPosition("before", 5)
    assert offset_specs.parse("@5") == offset_specs.OffsetPosition("time", 5)
    assert offset_specs.parse("earliest") == offset_specs.OffsetPosition("start")
