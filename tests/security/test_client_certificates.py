"""Clients with certificates: their principals, permissions by these names, and refused certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from pybroker import Broker
from pybroker.broker.security.authorizer import AclOperation, ResourceType
from pybroker.client import AdminClient
from pybroker.protocol import messages as m
from pybroker.testing.broker import BrokerProcessError
from tests.security.kit import call, create_acls, create_topics, entry, port_of, through_tls, until
from tests.support.certificates import Authority
from tests.support.kafka_tools import run_tool

GIVE_UP_S = 120
TOPIC_AUTHORIZATION_FAILED = 29
RULES = "RULE:^CN=(.*?),OU=Services,.*$/$1/L, RULE:^CN=nobody$/x\\/$1/, RULE:^CN=[Aa]dmin$/admin/,RULE:^OU=.*$/$0/"
ETL = "/C=US/O=Example, Inc./OU=Services/CN=ETL"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    """A broker with two listeners: SSL requires a certificate and has mapping rules; ASKED requests one and has no
    rules."""
    with Broker(
        {
            "listeners": "SSL://127.0.0.1:0,ASKED://127.0.0.1:0",
            "listener.security.protocol.map": "SSL:SSL,ASKED:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.identity("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "ssl.client.auth": "requested",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.ssl.ssl.principal.mapping.rules": RULES,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }
    ) as broker:
        yield broker


def showing(authority: Authority, identity: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if identity is not None:
        context.load_cert_chain(str(identity))
    return context


def metadata_code(broker: Broker, listener: str, context: ssl.SSLContext, topic: str) -> int:
    """Return the error code of a client that requests a topic."""
    client = through_tls(port_of(broker, listener), context)
    asked = m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=topic)])
    answer = call(client, asked)
    client.close()
    return int(answer.topics[0].error_code)


def test_rights_go_by_the_name_that_a_certificate_has(broker: Broker, authority: Authority) -> None:
    admin = through_tls(port_of(broker, "SSL"), showing(authority, authority.identity("Admin")))
    create_topics(admin, "orders", "by-subject")
    everything = [
        entry("etl", AclOperation.ALL, ResourceType.TOPIC, "orders"),
        entry(r"CN=ETL,OU=Services,O=Example\, Inc.,C=US", AclOperation.ALL, ResourceType.TOPIC, "by-subject"),
    ]
    create_acls(admin, *everything)
    etl = showing(authority, authority.identity("etl", ETL))
    # The rule maps the subject to a name; without a rule the subject is the name.
    assert metadata_code(broker, "SSL", etl, "orders") == 0
    assert metadata_code(broker, "SSL", etl, "by-subject") == TOPIC_AUTHORIZATION_FAILED
    assert metadata_code(broker, "ASKED", etl, "by-subject") == 0
    assert metadata_code(broker, "ASKED", etl, "orders") == TOPIC_AUTHORIZATION_FAILED
    assert metadata_code(broker, "ASKED", showing(authority, None), "by-subject") == TOPIC_AUTHORIZATION_FAILED
    create_acls(admin, entry("ANONYMOUS", AclOperation.ALL, ResourceType.TOPIC, "by-subject"))
    assert metadata_code(broker, "ASKED", showing(authority, None), "by-subject") == 0


def test_clients_show_their_certificates(broker: Broker, authority: Authority, tmp_path: Path) -> None:
    certificate = authority.identity("admin")
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(certificate),
    }
    reports: list[object] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce("of-admin", b"x" * 100_000, on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(GIVE_UP_S) == 0
    assert reports == [None]

    async def topics() -> set[str]:
        async with AdminClient(settings) as admin:
            return set(await admin.list_topics())

    assert "of-admin" in asyncio.run(topics())
    java = tmp_path / "client.properties"
    stores = {"keystore": certificate, "truststore": authority.certificate}
    lines = [f"ssl.{store}.type=PEM\nssl.{store}.location={place}\n" for store, place in stores.items()]
    java.write_text("security.protocol=SSL\n" + "".join(lines))
    arguments = ["--bootstrap-server", broker.bootstrap, "--command-config", str(java), "--list"]
    assert "of-admin" in run_tool("kafka-topics", arguments).split()


def refused(broker: Broker, listener: str, context: ssl.SSLContext, address: str = "127.0.0.1") -> None:
    """TLS 1.3 shows the client the refusal only with the first response. `address`: the log has one line a minute for
    each."""

    def heard() -> bytes:
        place = ("127.0.0.1", port_of(broker, listener))
        with (
            socket.create_connection(place, source_address=(address, 0)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            secured.sendall(bytes.fromhex("0000000e0012000000000001000474657374"))
            return secured.recv(1)

    try:
        assert heard() == b""
    except (ssl.SSLError, ConnectionError):
        return


def test_certificates_that_are_not_acceptable(broker: Broker, authority: Authority, tmp_path: Path) -> None:
    def says(words: str) -> None:
        until(lambda: any(words in line for line in broker.log_path.read_text().splitlines()))

    refused(broker, "SSL", showing(authority, None))
    says("on listener SSL closed: the TLS handshake failed: peer sent no certificates")
    expired = authority.expired("expired")
    refused(broker, "ASKED", showing(authority, expired))
    says("on listener ASKED closed: the TLS handshake failed: a certificate has expired ")
    says("by this machine's clock: that of CN=expired, serial number ")
    refused(broker, "SSL", showing(authority, expired))
    # The client controls this text, and it must not create a log line of its own.
    stranger = Authority(tmp_path / "others", "others").identity("root", "/O=two\nlines/CN=" + "x" * 60)
    refused(broker, "SSL", showing(authority, stranger), "127.0.0.2")
    who = r"CN=" + "x" * 60 + r",O=two\nlines, serial number "
    says(f"the TLS handshake failed: no authority in ssl.truststore.location vouches for {who}")
    refused(broker, "ASKED", showing(authority, stranger))
    never = authority.identity("never", days="-1")
    refused(broker, "SSL", showing(authority, never), "127.0.0.4")
    says("the TLS handshake failed: a certificate ends before it begins: that of CN=never, serial number ")
    old = authority.identity("old", version=1)
    refused(broker, "SSL", showing(authority, old), "127.0.0.3")
    says("the TLS handshake failed: the certificate of CN=old, serial number ")
    says("is not of X.509 version 3: openssl makes such ones without -extfile")
    refused(broker, "SSL", showing(authority, authority.identity("unknown", "/CN=unknown/O=x")))
    says('its certificate\'s subject "O=x,CN=unknown" fits none of ssl.principal.mapping.rules')


def test_rules_that_are_none_stop_the_start(authority: Authority) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.identity("broker")),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*$/$1/",
    }
    refusal = r"listener SSL: ssl\.principal\.mapping\.rules: .* is not a supported pattern"
    with pytest.raises(BrokerProcessError, match=refusal):
        Broker(settings).start()


def test_new_files_are_shown_to_new_connections(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other")
    keystore, truststore = tmp_path / "broker.pem", tmp_path / "trusted.pem"

    def put(place: Path, content: str) -> None:
        fresh = place.with_suffix(".new")
        fresh.write_text(content)
        fresh.rename(place)

    put(keystore, authority.identity("broker").read_text())
    put(truststore, authority.certificate.read_text())
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(truststore),
        "ssl.client.auth": "required",
    }
    with Broker(settings) as broker:

        def is_served(client: ssl.SSLContext) -> bool:
            try:
                connection = through_tls(broker.port, client)
                return bool(call(connection, m.ApiVersionsRequest(), 0).error_code == 0)
            except (ssl.SSLError, ConnectionError):
                return False

        before, after = showing(authority, authority.identity("c")), showing(other, other.identity("c"))
        open_one = through_tls(broker.port, before)
        assert is_served(before)
        assert not is_served(after)
        put(keystore, "what is no certificate")
        until(lambda: "the earlier ones stay in use" in broker.log_path.read_text())
        assert is_served(before)
        put(truststore, other.certificate.read_text())
        put(keystore, other.identity("broker").read_text())
        until(lambda: is_served(after))
        assert not is_served(before)
        assert call(open_one, m.ApiVersionsRequest(), 0).error_code == 0
