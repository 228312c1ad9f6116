"""One connection: versions, correlation, time limits, authentication, and clear errors."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from pybroker.client import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AdminClient,
    AuthenticationError,
    BrokerConnection,
    BrokerConnectionError,
    ClientConfigError,
    Consumer,
    KafkaError,
    KafkaTimeoutError,
    NewTopic,
    Producer,
    ResourceType,
    ScramMechanism,
    ScramUpsertion,
    TopicPartition,
    UnsupportedVersionError,
)
from pybroker.client.config import ADMIN, ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.sasl_login import SaslCredentials
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.client.conftest import SecureKafka
from tests.client.fake_broker import FakeBroker
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.wire import free_port


async def test_requests_overlap_and_answers_find_their_way(bootstrap: str) -> None:
    host, port = bootstrap.split(":")
    connection = await BrokerConnection.open(host, int(port))
    answers = await asyncio.gather(
        connection.request(m.MetadataRequest(topics=[])),
        connection.request(m.FindCoordinatorRequest(key="g", coordinator_keys=["g"])),
        connection.request(m.MetadataRequest(topics=[]), 5),
    )
    assert [type(each).__name__ for each in answers] == [
        "MetadataResponse",
        "FindCoordinatorResponse",
        "MetadataResponse",
    ]
    assert connection.highest(m.ApiVersionsRequest) >= 4
    await connection.close()
    with pytest.raises(BrokerConnectionError, match="this client closed the connection"):
        await connection.request(m.MetadataRequest(topics=[]))


async def test_an_old_broker_is_spoken_to_in_its_versions() -> None:
    async with FakeBroker({"MetadataRequest": lambda *_: broker.metadata()}, {3: (0, 2), 18: (0, 0)}) as broker:
        connection = await BrokerConnection.open("127.0.0.1", broker.port)
        assert connection.versions == {3: (0, 2), 18: (0, 0)}
        await connection.request(m.MetadataRequest(topics=[]))
        assert [version for request, version in broker.requests] == [5, 0, 2]
        with pytest.raises(UnsupportedVersionError, match=r"does not support Produce \(key 0\)"):
            await connection.request(m.ProduceRequest())
        connection.versions[3] = (99, 100)
        with pytest.raises(UnsupportedVersionError, match="supports Metadata in versions 99-100"):
            await connection.request(m.MetadataRequest())
        await connection.close()


async def test_an_overdue_answer_closes_the_connection() -> None:
    async with FakeBroker({"MetadataRequest": lambda *_: None}) as broker:
        connection = await BrokerConnection.open("127.0.0.1", broker.port, {"request.timeout.ms": 1000})
        with pytest.raises(KafkaTimeoutError, match=r"did not respond to Metadata within request\.timeout\.ms=1000"):
            await connection.request(m.MetadataRequest())
        assert not connection.is_open


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ConnectionError(), "was lost"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is a web server, not a broker"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "requires TLS"),
        (b"\x7f\xff\xff\xff", r"receive\.message\.max\.bytes"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x01", "sent an invalid response"),
    ],
)
async def test_what_is_no_answer_is_named(answer: Any, words: str) -> None:
    async with FakeBroker({"MetadataRequest": lambda *_: answer}) as broker:
        connection = await BrokerConnection.open("127.0.0.1", broker.port)
        with pytest.raises(BrokerConnectionError, match=words):
            await connection.request(m.MetadataRequest(topics=[]), 1)


async def test_nobody_listens() -> None:
    port = free_port()
    with pytest.raises(BrokerConnectionError, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"):
        await BrokerConnection.open("127.0.0.1", port)
    async with AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}) as admin:
        with pytest.raises(BrokerConnectionError, match="Connection refused"):
            await admin.list_topics()


async def test_a_broker_that_comes_back_is_found_again(product: BrokerProcess) -> None:
    async with AdminClient({"bootstrap.servers": product.bootstrap}) as admin:
        before = await admin.describe_cluster()
        product.restart(crash=True)  # in this thread: a broker ends with the thread that started it
        assert await admin.describe_cluster() == before


def test_pauses_double_up_to_their_limit() -> None:
    backoff = Backoff(0.1, 1.0)
    pauses = [backoff.next() for _ in range(10)]
    assert 0.08 <= pauses[0] <= 0.12
    assert all(0.8 <= pause <= 1.2 for pause in pauses[4:])
    backoff.reset()
    assert backoff.next() <= 0.12


# Settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bootstrap.server": "a:1"}, "did you mean bootstrap.servers"),
        ({"acks": "2"}, "acks=2: must be one of all, -1, 0, 1"),
        ({"linger.ms": "soon"}, "linger.ms=soon: expected a whole number"),
        ({"linger.ms": object()}, "expected long, got object"),
        ({"bootstrap.servers": "nowhere"}, "bootstrap.servers=nowhere: expected host:port"),
        ({"acks": "1", "enable.idempotence": True}, "requires acks=all"),
        ({"max.in.flight.requests.per.connection": 6}, "at most 5"),
        ({"value.serializer": "nowhere:Thing"}, "value.serializer=nowhere:Thing: import failed"),
    ],
)
async def test_wrong_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ClientConfigError, match=words.replace(".", r"\.")):
        await Producer({"bootstrap.servers": "127.0.0.1:1", **settings}).start()


def test_text_and_values_mean_the_same() -> None:
    for value in (60_000, "60000", "1m", "60s"):
        assert ClientConfig(ADMIN, {"metadata.max.age.ms": value})["metadata.max.age.ms"] == 60_000
    assert ClientConfig(ADMIN, {"bootstrap.servers": ["a:1", "b:2"]})["bootstrap.servers"] == ("a:1", "b:2")
    with pytest.raises(ClientConfigError, match=r"sasl\.password"):
        SaslCredentials.of(
            ClientConfig(ADMIN, {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"})
        )
    with pytest.raises(ClientConfigError, match=r"unknown setting acks"):
        Consumer({"acks": "all"})


# Identity ------------------------------------------------------------------------------------------------

_SASL = {3: (0, 12), 17: (0, 1), 18: (0, 4), 36: (0, 2)}


def _sasl(mechanism: str, password: str, jaas: bool = False) -> dict[str, Any]:
    login = {"sasl.username": "al,i=ce", "sasl.password": password}
    if jaas:
        login = {"sasl.jaas.config": f'ScramLoginModule required username="al,i=ce" password="{password}";'}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **login}


class ScramServer:
    """The broker's side of RFC 5802 for one user."""

    def __init__(self, algorithm: str, password: str, *, knows_password: bool = True) -> None:
        self.algorithm = algorithm
        self.password = password
        self.knows_password = knows_password
        self.first = self.server_first = ""

    def __call__(self, request: Any, _version: int) -> Any:
        text = request.auth_bytes.decode()
        if text.startswith("n,,"):
            self.first = text[3:]
            assert self.first.startswith("n=al=2Ci=3Dce,r=")
            nonce = self.first.rpartition("r=")[2]
            self.server_first = f"r={nonce}more,s={base64.b64encode(b'salt').decode()},i=4096"
            return m.SaslAuthenticateResponse(auth_bytes=self.server_first.encode())
        bare, _, proof = text.rpartition(",p=")
        salted = hashlib.pbkdf2_hmac(self.algorithm, self.password.encode(), b"salt", 4096)
        signed = f"{self.first},{self.server_first},{bare}".encode()
        key = hmac.digest(salted, b"Client Key", self.algorithm)
        stored = hashlib.new(self.algorithm, key).digest()
        signature = hmac.digest(stored, signed, self.algorithm)
        found = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.algorithm, found).digest() != stored:
            return m.SaslAuthenticateResponse(error_code=58, error_message="wrong password")
        ours = hmac.digest(hmac.digest(salted, b"Server Key", self.algorithm), signed, self.algorithm)
        if not self.knows_password:
            ours = bytes(len(ours))
        return m.SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(ours))


def _broker(mechanism: str, authenticate: Any) -> FakeBroker:
    def handshake(request: Any, _version: int) -> Any:
        return m.SaslHandshakeResponse(error_code=0 if request.mechanism == mechanism else 33, mechanisms=[mechanism])

    return FakeBroker({"SaslHandshakeRequest": handshake, "SaslAuthenticateRequest": authenticate}, _SASL)


@pytest.mark.parametrize("jaas", [False, True])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram(mechanism: str, jaas: bool) -> None:
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    async with _broker(mechanism, ScramServer(algorithm, "secret")) as broker:
        connection = await BrokerConnection.open("127.0.0.1", broker.port, _sasl(mechanism, "secret", jaas))
        await connection.close()
        with pytest.raises(AuthenticationError, match="user al,i=ce: wrong password") as refused:
            await BrokerConnection.open("127.0.0.1", broker.port, _sasl(mechanism, "wrong", jaas))
        assert "wrong password" in str(refused.value)
    async with _broker(mechanism, ScramServer(algorithm, "secret", knows_password=False)) as broker:
        with pytest.raises(AuthenticationError, match="does not know the password"):
            await BrokerConnection.open("127.0.0.1", broker.port, _sasl(mechanism, "secret", jaas))


async def test_nothing_new_is_sent_where_the_session_is_about_to_end() -> None:
    lifetime_ms = 3_600_000
    async with _broker("PLAIN", lambda *_: m.SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)) as broker:
        lasting = await BrokerConnection.open("127.0.0.1", broker.port, _sasl("PLAIN", "secret"))
        lifetime_ms = 1
        ending = await BrokerConnection.open("127.0.0.1", broker.port, _sasl("PLAIN", "secret"))
        async with asyncio.timeout(60):
            while ending.is_open:  # noqa: ASYNC110  # time alone ends it
                await asyncio.sleep(0.001)
        assert lasting.is_open
        await lasting.close()
        await ending.close()


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        ("nonsense", "invalid SCRAM challenge"),
        ("r=other,s=c2FsdA==,i=4096", "does not continue the client's"),
        ("r={nonce}x,s=c2FsdA==,i=99999999", "99999999 SCRAM iterations"),
        ("r={nonce}x,s=!!,i=1", "invalid SCRAM challenge"),
    ],
)
async def test_a_hostile_scram_server_is_refused(challenge: str, words: str) -> None:
    def answer(request: Any, _version: int) -> Any:
        nonce = request.auth_bytes.decode().rpartition("r=")[2]
        return m.SaslAuthenticateResponse(auth_bytes=challenge.replace("{nonce}", nonce).encode())

    async with _broker("SCRAM-SHA-256", answer) as broker:
        with pytest.raises(AuthenticationError, match=words):
            await BrokerConnection.open("127.0.0.1", broker.port, _sasl("SCRAM-SHA-256", "secret"))


async def test_plain() -> None:
    def answer(request: Any, _version: int) -> Any:
        good = request.auth_bytes == b"\0al,i=ce\0secret"
        return m.SaslAuthenticateResponse(error_code=0 if good else 58)

    async with _broker("PLAIN", answer) as broker:
        await (await BrokerConnection.open("127.0.0.1", broker.port, _sasl("PLAIN", "secret"))).close()
        with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED"):
            await BrokerConnection.open("127.0.0.1", broker.port, _sasl("PLAIN", "wrong"))
        with pytest.raises(AuthenticationError, match="it supports PLAIN"):
            await BrokerConnection.open("127.0.0.1", broker.port, _sasl("SCRAM-SHA-256", "secret"))
    assert "secret" not in repr(SaslCredentials("PLAIN", "alice", "secret"))


async def test_tls_needs_files_that_can_be_used(tmp_path: Path) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "missing.pem")}
    with pytest.raises(ClientConfigError, match=r"ssl\.\*\.location"):
        await BrokerConnection.open("127.0.0.1", 1, settings)


async def test_tls_and_sasl_against_apache_kafka(secure_kafka: SecureKafka, name: str) -> None:
    tls = {"bootstrap.servers": secure_kafka.tls, "security.protocol": "SSL"}
    trusted = {**tls, "ssl.ca.location": str(secure_kafka.certificate)}
    async with AdminClient(trusted) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        for mechanism in mechanisms:
            assert await admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret", mechanism)])
        assert {each.mechanism for each in (await admin.describe_user_scram_credentials())["alice"]} == set(mechanisms)
    async with Producer(trusted) as producer:
        assert (await producer.send(name, b"x" * 200_000)).offset == 0
    async with AdminClient(tls) as admin:
        with pytest.raises(BrokerConnectionError, match=r"TLS with .* failed: .*certificate"):
            await admin.list_topics()

    secure = {
        "bootstrap.servers": secure_kafka.sasl_tls,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secure_kafka.certificate),
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    for mechanism in mechanisms:
        async with AdminClient({**secure, "sasl.mechanism": mechanism.mechanism_name}) as admin:
            assert name in await admin.list_topics()
    async with AdminClient({**secure, "sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "no"}) as admin:
        with pytest.raises(AuthenticationError, match="user alice"):
            await admin.list_topics()
    plain = {**secure, "sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": "hidden"}
    config = {**plain, "auto.offset.reset": "earliest"}
    async with Consumer(config) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        assert len((await consumer.getone()).value) == 200_000


@pytest.mark.checklist("R18")
async def test_sasl_and_access_control_of_pybroker(tmp_path: Path, name: str) -> None:
    broker = PybrokerProcess(tmp_path)
    guarded = f"127.0.0.1:{free_port()}"
    broker.settings |= {
        "listeners": f"PLAINTEXT://{broker.bootstrap},LOGIN://{guarded}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "connections.max.reauth.ms": "5000",
    }
    broker.start()
    try:
        async with AdminClient({"bootstrap.servers": broker.bootstrap}) as root:
            await root.create_topics([NewTopic(name, 1, 1)])
            await root.alter_user_scram_credentials([ScramUpsertion("alice", "secret", ScramMechanism.SCRAM_SHA_512)])
            login = {
                "bootstrap.servers": guarded,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
            async with AdminClient(login) as alice:
                assert await alice.list_topics() == {}
                with pytest.raises(KafkaError) as refused:
                    await alice.delete_topics([name])
                assert refused.value.code in (
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                entries = [
                    AclBinding(ResourceType.TOPIC, name, "User:alice", operation)
                    for operation in (AclOperation.WRITE, AclOperation.READ)
                ]
                await root.create_acls(entries)
                assert set(await root.describe_acls()) == set(entries)
                assert list(await alice.list_topics()) == [name]
            async with Producer(login) as producer:
                # Sessions end after five seconds: another connection replaces the old one, and no record is lost or
                # duplicated.
                ends = asyncio.get_running_loop().time() + 11
                count = 0
                while asyncio.get_running_loop().time() < ends:
                    assert (await producer.send(name, str(count))).offset == count
                    count += 1
                    await asyncio.sleep(0.005)
                # The connection is replaced in time, unless the machine pauses in the last second of a session: then
                # its only record is sent again.
                assert producer.metrics()["record-retry-total"] <= 2
            removed = await root.delete_acls([AclBindingFilter(principal="User:alice")])
            assert set(next(iter(removed.values()))) == set(entries)
    finally:
        broker.kill()
