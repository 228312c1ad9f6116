"""New certificates by a request (KIP-226): TLS settings of one listener are changed while the broker runs."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.client import blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.security.kit import call, port_of, through_tls, until
from tests.support.certificates import Authority
from tests.support.kafka_tools import run_tool
from tests.support.keystores import PASSWORD, pkcs12
from tests.wire.client import WireClient

PREFIX = "listener.name.ssl.ssl.keystore."
SET, DELETE = 0, 1


@pytest.fixture
def first(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "first", "first")


@pytest.fixture
def broker(first: Authority) -> Iterator[Broker]:
    with Broker(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(first.identity("broker")),
        }
    ) as made:
        yield made


UNREADABLE = "not a readable regular file, or too long"


def shows(broker: Broker, authority: Authority) -> bool:
    """Return whether a new connection sees a certificate of that authority."""
    try:
        through_tls(port_of(broker, "SSL"), ssl.create_default_context(cafile=str(authority.certificate))).close()
        return True
    except ssl.SSLError:
        return False


def altered(broker: Broker, values: dict[str, str | None], name: str = "1") -> tuple[int, str | None]:
    ops = [
        m.IncrementalAlterConfigsRequest_AlterableConfig(
            name=one, config_operation=DELETE if value is None else SET, value=value
        )
        for one, value in values.items()
    ]
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=4, resource_name=name, configs=ops
    )
    with WireClient(port_of(broker, "PLAINTEXT")) as client:
        (answer,) = call(client, m.IncrementalAlterConfigsRequest(resources=[resource])).responses
    return answer.error_code, answer.error_message


def test_a_listener_gets_another_keystore(broker: Broker, first: Authority, tmp_path: Path) -> None:
    """The change goes through Kafka's tool. Open connections continue, and a restart keeps the new certificate. When
    the setting is removed, the file's value applies again."""
    other = Authority(tmp_path / "other", "other")
    store = pkcs12(tmp_path / "other.p12", other.identity("broker"))
    open_one = through_tls(port_of(broker, "SSL"), ssl.create_default_context(cafile=str(first.certificate)))
    server = ["--bootstrap-server", f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}", "--entity-type", "brokers"]
    settings = f"{PREFIX}type=PKCS12,{PREFIX}location={store},{PREFIX}password={PASSWORD}"
    run_tool("kafka-configs", [*server, "--entity-name", "1", "--alter", "--add-config", settings])
    until(lambda: shows(broker, other))
    assert not shows(broker, first)
    assert call(open_one, m.ApiVersionsRequest(), 0).error_code == 0
    shown = run_tool("kafka-configs", [*server, "--entity-name", "1", "--describe"])
    assert f"{PREFIX}location={store}" in shown
    assert f"{PREFIX}password=null sensitive=true" in shown
    assert PASSWORD not in shown
    assert PASSWORD not in broker.log_path.read_text()
    broker.restart()
    until(lambda: shows(broker, other))
    assert altered(broker, {f"{PREFIX}{name}": None for name in ("type", "location", "password")})[0] == 0
    until(lambda: shows(broker, first))


def test_what_cannot_be_used_is_refused(broker: Broker, first: Authority, tmp_path: Path) -> None:
    """The broker checks the value before it stores it. The error names the setting and the file; the shown value
    stays."""
    store = pkcs12(tmp_path / "store.p12", first.identity("again"))
    good = {f"{PREFIX}type": "PKCS12", f"{PREFIX}location": str(store), f"{PREFIX}password": PASSWORD}
    for wrong, told in (
        ({f"{PREFIX}password": "another"}, "ssl.keystore.password: it is not the password of"),
        ({f"{PREFIX}location": str(tmp_path / "none")}, UNREADABLE),
        ({f"{PREFIX}type": "BKS"}, "must be one of PEM, JKS, PKCS12"),
        ({"listener.name.ssl.ssl.client.auth": "required"}, "requires ssl.truststore.location"),
        ({"listener.name.none.ssl.keystore.type": "PEM"}, "Listener NONE is not a TLS listener"),
        ({"listener.name.ssl.ssl.principal.mapping.rules": "DEFAULT"}, "Cannot update these configs dynamically"),
    ):
        code, message = altered(broker, good | wrong)
        assert code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
        assert message is not None
        assert told in message
        assert "another" not in message
    code, message = altered(broker, good, "")
    assert (code, "belongs to one broker" in (message or "")) == (ErrorCode.INVALID_REQUEST, True)
    with blocking.AdminClient({"bootstrap.servers": f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}"}) as admin:
        assert admin.describe_cluster().nodes
    assert shows(broker, first)


def test_a_path_that_is_no_keystore_is_refused(broker: Broker, first: Authority, tmp_path: Path) -> None:
    """A named pipe does not block the broker, and responses do not reveal which files exist."""
    pipe, long = tmp_path / "pipe", tmp_path / "long"
    os.mkfifo(pipe)
    long.write_bytes(bytes(2 << 20))
    store = f"{PREFIX}location"
    refused = {altered(broker, {store: str(path)}) for path in (pipe, long, tmp_path, tmp_path / "none", "/dev/zero")}
    assert {code for code, _ in refused} == {ErrorCode.INVALID_REQUEST}
    assert {(message or "").partition(": ")[2].partition(": ")[2] for _, message in refused} == {UNREADABLE}
    assert shows(broker, first)


def test_a_key_without_its_certificate_is_refused(broker: Broker, first: Authority, tmp_path: Path) -> None:
    """Values that a listener could not use are not stored."""
    other = Authority(tmp_path / "other", "other")
    keys, certificates = [], []
    for identity in (first.identity("broker"), other.identity("broker")):
        key, _, certificate = identity.read_text().partition("-----BEGIN CERTIFICATE-----")
        keys.append(key)
        certificates.append(f"-----BEGIN CERTIFICATE-----{certificate}")
    for number, content in enumerate(
        (keys[0], certificates[0], keys[0] + certificates[1], certificates[0] + keys[1], "")
    ):
        store = tmp_path / f"store-{number}.pem"
        store.write_text(content)
        code, message = altered(broker, {f"{PREFIX}location": str(store)})
        assert code == ErrorCode.INVALID_REQUEST, number
        assert message
    assert shows(broker, first)
