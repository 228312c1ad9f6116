"""Redaction of settings, texts and nodes."""

from __future__ import annotations

import json

import pytest

from pybroker.broker.metadata.metadata_store import Node
from pybroker.broker.observability.diagnosis import node_documents, redaction
from pybroker.config import load_config

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="long \\"quoted\\"";'


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("log.dirs", True),
        ("retention.ms", True),
        ("delegation.token.secret.key", False),
        ("ssl.key.password", False),
        ("listener.name.sasl.plain.sasl.jaas.config", False),
        ("listener.name.tls.ssl.keystore.key", False),
        ("listener.name.tls.ssl.client.auth", True),
        ("somebody.elses.setting", False),
    ],
)
def test_settings(name: str, shown: bool) -> None:
    assert redaction.may_be_shown(name) is shown


def test_every_password_of_the_tables_is_hidden() -> None:
    passwords = [
        name for name in redaction.BROKER_SETTINGS if name.endswith(("password", "secret.key", "keystore.key"))
    ]
    assert len(passwords) > 5
    assert [name for name in passwords if redaction.may_be_shown(name)] == []


def test_secrets_are_taken_out_of_texts() -> None:
    name = "listener.name.sasl.scram-sha-256.sasl.jaas.config"
    config = load_config(settings={"ssl.key.password": "abc", "ssl.keystore.password": "abcdef", name: JAAS}).config
    found = redaction.secrets(config)
    assert "abcdef" in found
    assert "abc" not in found, "it would be a part of other words"
    clean = redaction.Cleaner(found | {"abcdefgh"})
    assert clean(f"{JAAS} abcdefgh-abcdef") == "[hidden] [hidden]-[hidden]"
    assert clean(json.dumps({"x": JAAS})) == '{"x": "[hidden]"}'
    assert clean("see https://me:word@host/path and a@b:c") == "see https://[hidden]@host/path and a@b:c"
    assert redaction.Cleaner(())("as it is") == "as it is"
    assert redaction.secrets_of_client({"sasl.password": "word-1", "client.id": "word-2"}) == {"word-1"}


def node(value: object) -> Node:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Node(data, 1, 2, 3, 4, 0)


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("/brokers/ids/1", {"host": "a"}, {"value": {"host": "a"}}),
        (
            "/config/users/alice",
            {"version": 1, "config": {"SCRAM-SHA-256": "salt=…", "producer_byte_rate": "1"}},
            {"value": {"config": {"SCRAM-SHA-256": "[hidden]", "producer_byte_rate": "1"}}},
        ),
        (
            "/config/users/alice/clients/x",
            {"config": {"other": "1"}},
            {"value": {"config": {"other": "[hidden]"}}},
        ),
        (
            "/config/brokers/1",
            {"version": 1, "config": {"log.level": "INFO", "ssl.key.password": "x", "foreign": "y"}},
            {"value": {"config": {"log.level": "INFO", "ssl.key.password": "[hidden]", "foreign": "[hidden]"}}},
        ),
        ("/config/topics/a", {"config": {"retention.ms": "1"}}, {"value": {"config": {"retention.ms": "1"}}}),
        ("/config/topics/a", ["odd"], {"value": "[hidden]"}),
        ("/admin/x", b"\x00\x01", {"bytes": 2}),
        ("/admin/x", b"", {}),
    ],
)
def test_nodes(path: str, value: object, shown: dict[str, object]) -> None:
    found = node_documents.document({path: node(value)})["nodes"][path]
    about = {"version": 1, "changed_zxid": 3, "created_ms": 4}
    assert found == {**about, **shown}


def test_so_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_documents, "NODES_MAX", 2)
    found = node_documents.document({f"/admin/{number}": node(number) for number in range(5)})
    assert (found["left_out"], len(found["nodes"])) == (3, 2)
