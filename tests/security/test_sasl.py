"""SASL on the wire: PLAIN, SCRAM, the old framing, re-authentication, and attacks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import struct
from collections.abc import Iterator

import pytest

from pybroker import Broker
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.security.kit import ROOT, call, jaas, login, password_of, port_of, secure_broker, until
from tests.wire.client import WireClient

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
DIGESTS = {"SCRAM-SHA-256": ("sha256", 1), "SCRAM-SHA-512": ("sha512", 2)}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "listeners": "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,AGAIN://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,AGAIN:SASL_PLAINTEXT",
        "listener.name.again.plain.sasl.jaas.config": jaas([ROOT, "bob"]),
        "listener.name.again.plain.connections.max.reauth.ms": "1h",
        "listener.name.again.scram-sha-256.connections.max.reauth.ms": "1ms",
        "sasl.server.max.receive.size": "1024",
    }
    with secure_broker(["bob"], settings) as broker:
        root = login(broker, ROOT)
        for mechanism, (digest, number) in DIGESTS.items():
            salted = hashlib.pbkdf2_hmac(digest, b"pencil", b"salt", 4096)
            upsertion = m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion(
                name="u,s=er", mechanism=number, iterations=4096, salt=b"salt", salted_password=salted
            )
            answer = call(root, m.AlterUserScramCredentialsRequest(upsertions=[upsertion]))
            assert [one.error_code for one in answer.results] == [0], mechanism
        yield broker


def begun(broker: Broker, mechanism: str, listener: str = "SASL") -> WireClient:
    client = WireClient(port_of(broker, listener))
    answer = call(client, m.SaslHandshakeRequest(mechanism=mechanism))
    assert (answer.error_code, answer.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    return client


def said(client: WireClient, token: bytes) -> m.SaslAuthenticateResponse:
    answer: m.SaslAuthenticateResponse = call(client, m.SaslAuthenticateRequest(auth_bytes=token))
    return answer


def refused(client: WireClient, token: bytes) -> str:
    """Return the message of a failure; check that the connection ends after it."""
    answer = said(client, token)
    assert answer.error_code == FAILED
    assert client.is_closed_by_peer()
    assert answer.error_message is not None
    return answer.error_message


class Scram:
    """A SCRAM client that can send wrong values."""

    def __init__(self, mechanism: str, user: str = "u,s=er", password: bytes = b"pencil") -> None:
        self.digest = DIGESTS[mechanism][0]
        self.password = password
        self.nonce = base64.b64encode(os.urandom(12)).decode()
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self.nonce}"

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, challenge: bytes, *, nonce: str | None = None, binding: bytes = b"n,,") -> bytes:
        fields = dict(part.partition("=")[::2] for part in challenge.decode().split(","))
        assert fields["r"].startswith(self.nonce)
        assert len(fields["r"]) > len(self.nonce)
        iterations = int(fields["i"])
        assert iterations == 4096
        salted = hashlib.pbkdf2_hmac(self.digest, self.password, base64.b64decode(fields["s"]), iterations)
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        without_proof = f"c={base64.b64encode(binding).decode()},r={nonce or fields['r']}"
        message = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self.digest, client_key).digest(), message, self.digest)
        self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self.digest), message, self.digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def works(client: WireClient) -> bool:
    return bool(call(client, m.MetadataRequest(topics=[])).brokers)


@pytest.mark.checklist("G13")
@pytest.mark.parametrize("mechanism", DIGESTS)
def test_scram(broker: Broker, mechanism: str) -> None:
    client, scram = begun(broker, mechanism), Scram(mechanism)
    challenge = said(client, scram.first())
    assert challenge.error_code == 0
    answer = said(client, scram.final(challenge.auth_bytes))
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert answer.auth_bytes == b"v=" + base64.b64encode(scram.server_signature)
    assert works(client)


@pytest.mark.checklist("G13")
@pytest.mark.parametrize("mechanism", DIGESTS)
def test_scram_refuses_alike_whatever_is_wrong(broker: Broker, mechanism: str) -> None:
    messages = set()
    for user, password in (("u,s=er", b"wrong"), ("nobody", b"pencil"), ("nobody", b"nothing")):
        client, scram = begun(broker, mechanism), Scram(mechanism, user, password)
        challenge = said(client, scram.first())
        assert challenge.error_code == 0, "strangers get a challenge, too"
        messages.add(refused(client, scram.final(challenge.auth_bytes)))
    for wrong in ({"nonce": "replayed"}, {"binding": b"y,,"}):
        client, scram = begun(broker, mechanism), Scram(mechanism)
        challenge = said(client, scram.first())
        messages.add(refused(client, scram.final(challenge.auth_bytes, **wrong)))  # type: ignore[arg-type]  # wrong on purpose
    for nonsense in (
        b"",
        b"n,,n=,r=abc",
        b"p=tls-unique,,n=u,r=abc",
        b"n,a=other,n=u,r=abc",
        b"n,,n=u,r=",
        b"\xff\xfe",
        b"n,,n=u=XX,r=abc",
    ):
        messages.add(refused(begun(broker, mechanism), nonsense))
    assert len(messages) == 1
    # A challenge can be answered only once, and only on its own connection.
    client, scram = begun(broker, mechanism), Scram(mechanism)
    final = scram.final(said(client, scram.first()).auth_bytes)
    other = begun(broker, mechanism)
    said(other, Scram(mechanism).first())
    assert refused(other, final) in messages
    assert said(client, final).error_code == 0


@pytest.mark.checklist("G13")
def test_the_challenge_of_a_stranger_is_always_the_same(broker: Broker) -> None:
    def challenge(user: str) -> list[str]:
        client = begun(broker, "SCRAM-SHA-256")
        return said(client, Scram("SCRAM-SHA-256", user).first()).auth_bytes.decode().split(",")[1:]

    assert challenge("nobody") == challenge("nobody") != challenge("somebody")
    assert len(challenge("nobody")[0]) == len(challenge("u,s=er")[0])
    assert challenge("nobody")[1] == challenge("u,s=er")[1] == "i=4096"


@pytest.mark.checklist("G13")
def test_plain(broker: Broker) -> None:
    assert said(begun(broker, "PLAIN"), f"bob\0bob\0{password_of('bob')}".encode()).error_code == 0
    wrong = refused(begun(broker, "PLAIN"), b"\0bob\0wrong")
    assert refused(begun(broker, "PLAIN"), b"\0nobody\0wrong") == wrong
    assert "authorization id" in refused(begun(broker, "PLAIN"), f"root\0bob\0{password_of('bob')}".encode())
    for nonsense in (b"", b"\0bob", b"\0\0x", b"\0bob\0", b"\0bob\0x\0y", b"\0\xff\0x"):
        refused(begun(broker, "PLAIN"), nonsense)
    # A user of SCRAM is not a user of PLAIN.
    assert refused(begun(broker, "PLAIN"), b"\0u,s=er\0pencil") == wrong


@pytest.mark.checklist("H8", "G13")
def test_nothing_else_comes_before_authentication(broker: Broker) -> None:
    for request in (m.MetadataRequest(topics=None), m.ListOffsetsRequest(), m.AlterUserScramCredentialsRequest()):
        client = WireClient(port_of(broker, "SASL"))
        assert call(client, m.ApiVersionsRequest(client_software_name="x", client_software_version="1")).error_code == 0
        with pytest.raises(ConnectionError):
            call(client, request)
    client = begun(broker, "PLAIN")
    told = call(client, m.MetadataRequest(topics=[]))
    address = (1, "127.0.0.1", port_of(broker, "SASL"))
    assert [(one.node_id, one.host, one.port) for one in told.brokers] == [address]
    assert (told.cluster_id, told.topics) == (None, [])
    refused = call(client, m.ListGroupsRequest())
    assert (refused.error_code, refused.groups) == (FAILED, [])
    assert client.is_closed_by_peer()
    client = WireClient(port_of(broker, "SASL"))
    assert said(client, b"\0bob\0x").error_code == ILLEGAL
    assert client.is_closed_by_peer()
    client = begun(broker, "SCRAM-SHA-256")
    assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == ILLEGAL
    assert client.is_closed_by_peer()


@pytest.mark.checklist("G13")
def test_an_unknown_mechanism_is_told_the_known_ones(broker: Broker) -> None:
    for version in (0, 1):
        client = WireClient(port_of(broker, "SASL"))
        answer = call(client, m.SaslHandshakeRequest(mechanism="GSSAPI"), version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert client.is_closed_by_peer()


@pytest.mark.checklist("R18", "G13")
def test_strangers_may_send_little(broker: Broker) -> None:
    client = begun(broker, "PLAIN")
    with pytest.raises(ConnectionError):
        said(client, b"x" * 2000)
    client = WireClient(port_of(broker, "SASL"))
    client.send_bytes(struct.pack(">i", 1 << 30))
    assert client.is_closed_by_peer()
    # An authenticated client may send larger requests.
    client = login(broker, "bob")
    assert call(client, m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name="n" * 2000)])).topics


def raw(client: WireClient, token: bytes) -> bytes:
    client.send_frame(token)
    return client.receive_frame()


@pytest.mark.checklist("G13")
@pytest.mark.parametrize("mechanism", DIGESTS)
def test_bare_tokens_after_the_old_handshake(broker: Broker, mechanism: str) -> None:
    client, scram = WireClient(port_of(broker, "SASL")), Scram(mechanism)
    assert call(client, m.SaslHandshakeRequest(mechanism=mechanism), 0).error_code == 0
    final = raw(client, scram.final(raw(client, scram.first())))
    assert final == b"v=" + base64.b64encode(scram.server_signature)
    assert works(client)
    client = WireClient(port_of(broker, "SASL"))
    assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
    # The length is shorter than that of any request.
    client.send_frame(b"\0b\0x")
    assert client.is_closed_by_peer()
    client = WireClient(port_of(broker, "SASL"))
    assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
    assert raw(client, f"\0bob\0{password_of('bob')}".encode()) == b""
    assert works(client)


@pytest.mark.checklist("G13")
def test_authenticating_again(broker: Broker) -> None:
    def again(user: str) -> m.SaslAuthenticateResponse:
        assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
        return said(client, f"\0{user}\0{password_of(user)}".encode())

    client = begun(broker, "PLAIN", "AGAIN")
    answer = said(client, f"\0bob\0{password_of('bob')}".encode())
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 3_600_000)
    assert works(client)
    assert again("bob").session_lifetime_ms == 3_600_000
    assert works(client)
    answer = again(ROOT)
    assert (answer.error_code, answer.error_message) == (
        FAILED,
        "Cannot change principals during re-authentication from User:bob: User:root",
    )
    assert client.is_closed_by_peer()
    # Without a session limit there is nothing to renew, and the request does no harm to the connection.
    client = login(broker, "bob")
    assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == ILLEGAL
    assert said(client, b"\0bob\0x").error_code == ILLEGAL
    assert works(client)


def use_up(client: WireClient) -> None:
    for _ in range(10_000):
        works(client)


@pytest.mark.checklist("G13")
def test_a_session_that_has_ended_serves_nothing_but_a_new_one(broker: Broker) -> None:
    def authenticate() -> None:
        scram = Scram("SCRAM-SHA-256")
        challenge = said(client, scram.first()).auth_bytes
        answer = said(client, scram.final(challenge))
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 1)

    client = begun(broker, "SCRAM-SHA-256", "AGAIN")
    authenticate()
    # The session's lifetime of a millisecond has passed by now, or passes during the next requests.
    with pytest.raises(ConnectionError):
        use_up(client)
    client = begun(broker, "SCRAM-SHA-256", "AGAIN")
    authenticate()
    assert call(client, m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")).error_code == 0
    authenticate()


def test_a_listener_without_sasl(broker: Broker) -> None:
    client = WireClient(port_of(broker, "PLAINTEXT"))
    assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == ILLEGAL
    assert said(client, b"\0bob\0x").error_code == ILLEGAL
    assert works(client)


def test_who_does_not_authenticate_in_time_is_gone() -> None:
    with secure_broker(settings={"connection.authentication.timeout.ms": "6000"}) as broker:
        silent = WireClient(port_of(broker, "SASL"))
        client = begun(broker, "PLAIN")
        assert silent.is_closed_by_peer()
        assert client.is_closed_by_peer()
        until(lambda: "did not authenticate in time" in broker.log_path.read_text())


@pytest.mark.checklist("H7")
def test_no_secret_in_the_log_or_in_answers(broker: Broker) -> None:
    root = login(broker, ROOT)
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=None
    )
    answer = call(root, m.DescribeConfigsRequest(resources=[resource], include_synonyms=True))
    for secret in (password_of("bob"), password_of(ROOT), "pencil"):
        assert secret not in repr(answer)
        assert secret not in broker.log_path.read_text()
