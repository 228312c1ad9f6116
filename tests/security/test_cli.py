"""`pybroker users` and `pybroker acls`, as an operator uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from tests.security.kit import ROOT, port_of, secure_broker


def pybroker(*arguments: object, stdin: str = "", code: int = 0) -> str:
    """Run the command; return its stdout, or after a failure its stderr."""
    done = CliRunner().invoke(cli, [*map(str, arguments)], input=stdin)
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stderr if code else done.stdout


@pytest.mark.checklist("G13", "H1")
def test_from_the_first_user_to_a_list_of_entries(tmp_path: Path) -> None:
    data = tmp_path / "data"
    admin = tmp_path / "admin.properties"
    admin.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=first\nsasl.password=pw 1\n"
    )
    offline = ("--data-dir", data)
    assert "SCRAM-SHA-256, SCRAM-SHA-512" in pybroker(
        "users", "add", "first", "--password-file", "-", *offline, stdin="pw 1\n"
    )
    rows = json.loads(pybroker("users", "list", "--json", *offline))
    assert [(row["user"], row["mechanism"], row["iterations"]) for row in rows] == [
        ("first", "SCRAM-SHA-256", 4096),
        ("first", "SCRAM-SHA-512", 4096),
    ]
    broker = secure_broker(settings={"log.dirs": str(data), "super.users": f"User:{ROOT};User:first"})
    with broker:
        assert "in use" in pybroker("users", "list", *offline, code=1)
        online = ("--bootstrap-server", f"127.0.0.1:{port_of(broker, 'SASL')}", "--command-config", admin)
        pybroker(
            "users", "add", "alice", "--mechanism", "SCRAM-SHA-256", "--password-file", "-", *online, stdin="secret"
        )
        assert {row["user"] for row in json.loads(pybroker("users", "list", "--json", *online))} == {"first", "alice"}
        pybroker("users", "remove", "alice", *online)
        assert "no user 'alice'" in pybroker("users", "remove", "alice", *online, code=1)

        def listed(*arguments: str) -> list[tuple[str, ...]]:
            rows = json.loads(pybroker("acls", *arguments, "--json", *online))
            return sorted(tuple(row[name] for name in ("resource", "pattern", "name", "operation")) for row in rows)

        allow = ("--allow-principal", "User:bob")
        consumer = (*allow, "--consumer", "--topic", "orders", "--group", "billing")
        wanted = [
            ("Group", "literal", "billing", "Read"),
            ("Topic", "literal", "orders", "Describe"),
            ("Topic", "literal", "orders", "Read"),
        ]
        assert listed("--add", *consumer) == wanted
        assert listed("--list") == wanted
        assert listed("--list", "--topic", "orders") == wanted[1:]
        prefixed = ("--topic", "ord", "--resource-pattern-type", "prefixed", "--operation", "alter-configs")
        assert listed("--add", *allow, *prefixed) == [("Topic", "prefixed", "ord", "AlterConfigs")]
        assert len(listed("--list", "--topic", "orders", "--resource-pattern-type", "match")) == 3
        assert listed("--list", "--principal", "User:nobody") == []
        assert listed("--remove", "--force", *consumer) == wanted
        assert listed("--list") == [("Topic", "prefixed", "ord", "AlterConfigs")]
        assert listed("--remove", "--force", "--topic", "ord", "--resource-pattern-type", "prefixed")
        assert listed("--list") == []
        wrong = tmp_path / "wrong.properties"
        wrong.write_text(admin.read_text().replace("pw 1", "pw 2"))
        told = pybroker(
            "acls",
            "--list",
            "--bootstrap-server",
            f"127.0.0.1:{port_of(broker, 'SASL')}",
            "--command-config",
            wrong,
            code=1,
        )
        assert "uthentication" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--list", "--add"), "Use only one of --list and --add"),
        ((), "Missing command: cli acls add|list|remove"),
        (("--add", "--topic", "t"), "principal"),
        (("--add", "--allow-principal", "alice", "--topic", "t"), "User:alice"),
        (("--add", "--allow-principal", "User:a"), "--topic"),
        (("--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "fly"), "Unknown operation"),
        (("--add", "--allow-principal", "User:a", "--consumer", "--topic", "t"), "--group"),
        (("--add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"), "literal"),
        (("--remove", "--force"), "--topic"),
    ],
)
def test_mistakes_are_told_before_anybody_is_asked(arguments: tuple[str, ...], told: str) -> None:
    assert told in pybroker("acls", *arguments, "--bootstrap-server", "127.0.0.1:1", code=2)
