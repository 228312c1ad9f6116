"""Listeners with TLS: real clients write and read through them, and connections without TLS are closed at once, with a
log line."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from pybroker import Broker
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.broker import BrokerProcessError
from tests.security import python_clients
from tests.security.kit import ROOT, call, jaas, password_of, port_of, through_tls, until
from tests.support.certificates import Authority
from tests.support.delivered import offset_and_value
from tests.support.kafka_tools import run_tool
from tests.support.memory import resident_mib
from tests.wire.client import WireClient

TOPIC = "encrypted"
LARGE = 930_000
GIVE_UP_S = 120
NO_MORE_MIB = 64
MANY = 200
PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def inline(pem: str, kind: str) -> str:
    """Return one block of a PEM file as a settings file has it: on one line."""
    begin, end = f"-----BEGIN {kind}-----", f"-----END {kind}-----"
    body = pem.partition(begin)[2].partition(end)[0]
    return " ".join(f"{begin}{body}{end}".split("\n"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    """A broker with three listeners: SSL with a file; LOGIN is SASL_SSL, has its own certificate as text, and supports
    only TLS 1.2; PLAINTEXT."""
    other = authority.identity("other").read_text()
    with Broker(
        {
            "listeners": "SSL://127.0.0.1:0,LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "SSL:SSL,LOGIN:SASL_SSL,PLAINTEXT:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "listener.name.ssl.ssl.keystore.location": str(authority.identity("broker")),
            "listener.name.login.ssl.keystore.key": inline(other, "PRIVATE KEY"),
            "listener.name.login.ssl.keystore.certificate.chain": inline(other, "CERTIFICATE"),
            "listener.name.login.ssl.enabled.protocols": "TLSv1.2",
            "listener.name.login.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "listener.name.login.plain.sasl.jaas.config": jaas([ROOT]),
            "auto.create.topics.enable": "true",
            "offsets.topic.num.partitions": "1",
            "connection.authentication.timeout.ms": "3s",
        }
    ) as broker:
        yield broker


def trusting(authority: Authority, version: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if version is not None:
        context.minimum_version = context.maximum_version = PROTOCOLS[version]
    return context


def address_of(broker: Broker, listener: str) -> str:
    return f"127.0.0.1:{port_of(broker, listener)}"


def lines_with(broker: Broker, words: str) -> list[str]:
    return [line for line in broker.log_path.read_text().splitlines() if words in line]


def write_and_read(settings: dict[str, Any], topic: str, values: list[bytes]) -> None:
    """Write and read with librdkafka."""
    reports: list[object] = []
    producer = confluent_kafka.Producer({**settings, "message.max.bytes": 10_000_000, "linger.ms": 20})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(GIVE_UP_S) == 0
    assert reports == [None] * len(values)
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    read = []
    end = time.monotonic() + GIVE_UP_S
    while len(read) < len(values) and time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            read.append(offset_and_value(message)[1])
    consumer.close()
    assert read == values


def test_librdkafka_writes_and_reads_small_and_large_batches(broker: Broker, authority: Authority) -> None:
    settings = {
        "bootstrap.servers": address_of(broker, "SSL"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
    }
    values = [bytes([number]) * size for number, size in enumerate([1, 100, 16_384, 16_385, LARGE, 70_000] * 8)]
    write_and_read(settings, "small-and-large", values)
    login = {
        "bootstrap.servers": address_of(broker, "LOGIN"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT,
        "sasl.password": password_of(ROOT),
    }
    write_and_read({**settings, **login}, "with-login", values)


@pytest.mark.parametrize("version", PROTOCOLS)
def test_kafka_python_and_aiokafka(broker: Broker, authority: Authority, version: str) -> None:
    context = trusting(authority, version)
    given: dict[str, Any] = {"security_protocol": "SSL", "ssl_context": context}
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=2_000_000, **given)
    assert producer.send(TOPIC, b"k" * LARGE).get(GIVE_UP_S).offset >= 0
    producer.close()

    async def both_ways() -> bytes:
        writer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=2_000_000, **given)
        await writer.start()
        sent = await writer.send_and_wait(TOPIC, b"a" * LARGE)
        await writer.stop()
        reader = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, **given)
        await reader.start()
        reader.assign([aiokafka.TopicPartition(TOPIC, 0)])
        reader.seek(aiokafka.TopicPartition(TOPIC, 0), sent.offset)
        record = await asyncio.wait_for(reader.getone(), GIVE_UP_S)
        await reader.stop()
        return bytes(record.value)

    assert asyncio.run(both_ways()) == b"a" * LARGE


def test_kafkas_tools(broker: Broker, authority: Authority, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={authority.certificate}\n"
    settings.write_text(f"security.protocol=SSL\n{trust}")
    run_tool(
        "kafka-topics",
        ["--bootstrap-server", broker.bootstrap, "--command-config", str(settings), "--create", "--topic", "by-java"],
    )
    line = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ROOT}" '
    line += f'password="{password_of(ROOT)}";'
    settings.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}\n{trust}")
    listed = run_tool(
        "kafka-topics",
        ["--bootstrap-server", address_of(broker, "LOGIN"), "--command-config", str(settings), "--list"],
    )
    assert "by-java" in listed.split()


def test_versions_and_suites_are_those_of_the_listener(broker: Broker, authority: Authority) -> None:
    port = port_of(broker, "LOGIN")
    with pytest.raises(ssl.SSLError):
        through_tls(port, trusting(authority, "TLSv1.3"))
    context = trusting(authority, "TLSv1.2")
    with socket.create_connection(("127.0.0.1", port)) as plain:
        secured = context.wrap_socket(plain, server_hostname="localhost")
        assert secured.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError):
        through_tls(port, context)
    # The client uses any host name: the listener has one certificate, which the client checks.
    assert call(through_tls(port_of(broker, "SSL"), trusting(authority)), m.MetadataRequest(topics=[])).brokers
    with pytest.raises(ssl.SSLCertVerificationError):
        through_tls(port_of(broker, "SSL"), trusting(authority), "another.example")
    unchecked = trusting(authority)
    unchecked.check_hostname = False
    assert call(through_tls(port_of(broker, "SSL"), unchecked, "another.example"), m.MetadataRequest(topics=[])).brokers


def test_many_connections_at_once_and_none_stays(broker: Broker, authority: Authority) -> None:
    context = trusting(authority)
    for _ in range(2):
        clients = [through_tls(port_of(broker, "SSL"), context) for _ in range(MANY)]
        for client in clients:
            client.send(m.ApiVersionsRequest(), 0)
        assert all(client.receive().error_code == 0 for client in clients)
        before = resident_mib(broker.pid)
        for client in clients:
            client.close()
    assert resident_mib(broker.pid) - before < NO_MORE_MIB


def ended(plain: socket.socket) -> bytes:
    """Return the bytes until the broker closes the connection."""
    plain.settimeout(GIVE_UP_S)
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while part := plain.recv(65536):
            got += part
    return got


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        pytest.param(b"\1" + bytes(7), "does not speak TLS", id="neither TLS nor a request"),
        pytest.param(bytes.fromhex("00000007") + bytes(7), "does not speak TLS", id="a request of no length"),
        pytest.param(bytes.fromhex("00010001") + bytes(9), "does not speak TLS", id="too long a request"),
        pytest.param(bytes.fromhex("0000000a") + b"\x7f" * 10, "does not speak TLS", id="an unknown request"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP", id="http"),
        pytest.param(bytes.fromhex("1603010005") + b"\xff" * 5, "TLS handshake failed", id="garbage in a record"),
        pytest.param(bytes.fromhex("160301ffff") + bytes(70_000), "TLS handshake failed", id="too long a record"),
    ],
)
def test_what_is_no_tls_ends_with_one_line(broker: Broker, sent: bytes, words: str) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port_of(broker, "SSL"))) as plain, contextlib.suppress(OSError):
            plain.sendall(sent)
            answer = ended(plain)
            # A plaintext client would interpret a TLS alert as the length of a response: 352 MB.
            assert not answer or sent[0] == 0x16
    until(lambda: any("on listener SSL" in line for line in lines_with(broker, words)))


@pytest.mark.parametrize(("listener", "protocol"), [("SSL", "SSL"), ("LOGIN", "SASL_SSL")])
def test_a_plaintext_client_is_told_in_words_and_gets_nothing_else(
    broker: Broker, listener: str, protocol: str
) -> None:
    port, words = port_of(broker, listener), f"This listener speaks TLS: set security.protocol={protocol}."

    def asked(request: Any, version: int | None = None) -> Any:
        """Send ApiVersions first, like clients; the connection is closed after the response."""
        with WireClient(port) as client:
            assert call(client, m.ApiVersionsRequest(), 0).error_code == 0
            answer = call(client, request, version)
            assert client.is_closed_by_peer()
        return answer

    topic = m.MetadataRequest_MetadataRequestTopic(name=TOPIC)
    answer = asked(m.MetadataRequest(topics=[topic]))
    assert [one.error_code for one in answer.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert answer.cluster_id is None
    assert answer.brokers[0].port == port
    answer = asked(m.DescribeClusterRequest())
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, words)
    made = m.CreateTopicsRequest_CreatableTopic(name="refused", num_partitions=1, replication_factor=1)
    answer = asked(m.CreateTopicsRequest(topics=[made]))
    assert [one.error_message for one in answer.topics] == [words]
    # The client is refused before it sends the password in plaintext; a password that was sent anyway is not checked.
    for version in (0, 1):
        answer = asked(m.SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == [f"set security.protocol={protocol}", "This listener speaks TLS"]
    token = f"\0{ROOT}\0{password_of(ROOT)}".encode()
    answer = asked(m.SaslAuthenticateRequest(auth_bytes=token))
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, words)
    line = f"it does not speak TLS, but this listener does; set security.protocol={protocol} "
    until(lambda: lines_with(broker, line))


def test_a_plaintext_client_cannot_stay(broker: Broker) -> None:
    """The client sends ApiVersions, half a request, or one byte, and is disconnected after
    connection.authentication.timeout.ms."""
    for sent in (b"\0", bytes.fromhex("0000001100120000"), bytes.fromhex("0000001100120000000000010004746573740000")):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port_of(broker, "SSL"))) as plain:
            plain.sendall(sent)
            ended(plain)
        assert time.monotonic() - began < GIVE_UP_S / 2


def test_a_tls_client_on_plaintext_is_told(broker: Broker) -> None:
    outcome = python_clients.confluent(address_of(broker, "PLAINTEXT"), TOPIC, "g", "SSL")
    assert outcome == ("_SSL", "_SSL")
    until(lambda: lines_with(broker, "it speaks TLS, but this listener is plaintext"))


def test_handshakes_without_end_end(broker: Broker) -> None:
    """The client sends nothing, or a byte now and then. Both end after connection.authentication.timeout.ms, and take
    little memory."""
    before = resident_mib(broker.pid)
    sockets = [socket.create_connection(("127.0.0.1", port_of(broker, "SSL"))) for _ in range(MANY)]
    hello = bytes.fromhex("16030140000100fffc0303") + bytes(15_000)
    for number, plain in enumerate(sockets):
        if number % 2:
            plain.sendall(hello)
    assert resident_mib(broker.pid) - before < NO_MORE_MIB
    slow = sockets[0]
    with contextlib.suppress(OSError):
        for byte in hello:
            slow.sendall(bytes([byte]))
            time.sleep(0.05)
    for plain in sockets:
        ended(plain)
        plain.close()
    until(lambda: lines_with(broker, "its TLS handshake did not end in time"))


def test_a_connection_that_is_cut_or_half_closed_is_gone(broker: Broker, authority: Authority) -> None:
    context = trusting(authority)
    for close_notify in (True, False):
        plain = socket.create_connection(("127.0.0.1", port_of(broker, "SSL")))
        secured = context.wrap_socket(plain, server_hostname="localhost")
        if close_notify:
            # The client sends close_notify and waits for the broker's.
            secured.unwrap().close()
        else:
            secured.shutdown(socket.SHUT_WR)
            # The broker sends session tickets, and its close alert.
            ended(secured)
            secured.close()


def test_records_that_were_changed_on_the_way_end_the_connection(broker: Broker, authority: Authority) -> None:
    plain = socket.create_connection(("127.0.0.1", port_of(broker, "SSL")))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            secured.do_handshake()
            break
        except ssl.SSLWantReadError:
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
    plain.sendall(outgoing.read())
    secured.write(b"\0\0\0\x10" + bytes(16))
    spoiled = bytearray(outgoing.read())
    spoiled[-1] ^= 1
    plain.sendall(spoiled)
    ended(plain)
    until(lambda: lines_with(broker, "closed: TLS failed: "))


def test_a_client_that_expects_another_name_or_authority(
    broker: Broker, authority: Authority, tmp_path: Path
) -> None:
    """It is closed with one log line; the listener has one certificate for every requested name (SNI)."""
    other = Authority(tmp_path / "other", "other")
    for context, name in ((trusting(authority), "elsewhere.example"), (trusting(other), "localhost")):
        with pytest.raises(ssl.SSLCertVerificationError):
            through_tls(port_of(broker, "SSL"), context, name)
    until(lambda: lines_with(broker, "TLS handshake failed"))
    anybody = trusting(authority)
    anybody.check_hostname = False
    for name in ("elsewhere.example", None):
        with through_tls(port_of(broker, "SSL"), anybody, name) as client:
            assert call(client, m.ApiVersionsRequest(), 0).error_code == 0


def test_nobody_negotiates_again(broker: Broker, authority: Authority) -> None:
    """A client of TLS 1.2 requests renegotiation, which could cause unlimited handshakes on one connection."""
    command = ["openssl", "s_client", "-tls1_2", "-CAfile", str(authority.certificate), "-connect"]
    done = subprocess.run(
        [*command, address_of(broker, "LOGIN")], input=b"R\n", capture_output=True, timeout=GIVE_UP_S, check=False
    )
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said
    with through_tls(port_of(broker, "SSL"), trusting(authority)) as client:
        assert call(client, m.ApiVersionsRequest(), 0).error_code == 0


def test_keystores_that_cannot_be_used_are_named_at_the_start(authority: Authority, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMC4=\n-----END ENCRYPTED PRIVATE KEY-----\n")
    for place, words in [
        (tmp_path / "missing.pem", "listener SSL: ssl.keystore.location="),
        (empty, "listener SSL: ssl.keystore: there is no certificate in it (PEM)"),
        (authority.certificate, "listener SSL: ssl.keystore: there is no private key in it (PEM)"),
        (encrypted, "listener SSL: ssl.key.password: it is not set, and needed for the private key in "),
    ]:
        settings = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(place),
        }
        with pytest.raises(BrokerProcessError) as caught:
            Broker(settings).start()
        assert words in str(caught.value)
        assert "Traceback" not in str(caught.value)
