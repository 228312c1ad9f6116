"""Clients that log in with tokens (OAUTHBEARER): sessions, changing keys, hostile tokens, clients of all kinds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest
from joserfc.jwk import ECKey

from pybroker import Broker
from pybroker.client import AuthenticationError, blocking
from pybroker.client.client_errors import ClientConfigError
from pybroker.config import ConfigError, load_config
from pybroker.native import BlockingClient, NativeError
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.security.kit import NEVER_SECONDS, call, port_of, secure_broker, until
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider, signed
from tests.support.kafka_tools import ToolError, run_tool
from tests.wire.client import WireClient

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
TOPIC = "by-token"
SECRET_NAME = "sasl.oauthbearer.client.credentials.client.secret"

OAUTH = {
    "listeners": "TOKENS://127.0.0.1:0,SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "TOKENS:SASL_PLAINTEXT,SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "1",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10",
    "super.users": f"User:root;User:{CLIENT};User:alice",
}


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as made:
        yield made


@pytest.fixture(scope="module")
def broker(provider: IdentityProvider) -> Iterator[Broker]:
    with secure_broker(settings={**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/jwks"}) as made:
        yield made


def begun(broker: Broker) -> WireClient:
    client = WireClient(port_of(broker, "TOKENS"))
    shake(client)
    return client


def shake(client: WireClient) -> None:
    answer = call(client, m.SaslHandshakeRequest(mechanism="OAUTHBEARER"))
    assert (answer.error_code, answer.mechanisms) == (0, ["OAUTHBEARER"])


def said(client: WireClient, token: str) -> m.SaslAuthenticateResponse:
    message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    answer: m.SaslAuthenticateResponse = call(client, m.SaslAuthenticateRequest(auth_bytes=message))
    return answer


def refused(broker: Broker, token: str) -> None:
    """Check that the login is refused: first the reason as JSON, then the failure."""
    client = begun(broker)
    answer = said(client, token)
    assert (answer.error_code, json.loads(answer.auth_bytes)) == (0, {"status": "invalid_token"})
    last = call(client, m.SaslAuthenticateRequest(auth_bytes=b"\x01"))
    assert (last.error_code, last.error_message) == (FAILED, '{"status":"invalid_token"}')
    assert client.is_closed_by_peer()


def works(client: WireClient) -> bool:
    return bool(call(client, m.MetadataRequest(topics=[])).brokers)


@pytest.mark.checklist("G13")
def test_a_session_lasts_as_long_as_its_token(broker: Broker, provider: IdentityProvider) -> None:
    client = begun(broker)
    answer = said(client, provider.token("alice", exp=int(time.time()) + 100))
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 90_000 < answer.session_lifetime_ms <= 100_000
    assert works(client)
    # The client can authenticate again with a newer token, but not as another user.
    shake(client)
    assert 3_500_000 < said(client, provider.token("alice")).session_lifetime_ms <= 3_600_000
    shake(client)
    answer = said(client, provider.token("mallory"))
    assert answer.error_code == FAILED
    assert answer.error_message is not None
    assert "Cannot change principals" in answer.error_message
    assert client.is_closed_by_peer()
    # The end of the token ends the session, whatever the client does.
    client = begun(broker)
    assert said(client, provider.token("alice", exp=int(time.time()) + 1)).error_code == 0
    until(lambda: is_over(client))


def is_over(client: WireClient) -> bool:
    try:
        return not works(client)
    except ConnectionError:
        return True


@pytest.mark.checklist("G13")
def test_hostile_tokens_have_one_line_each(broker: Broker, provider: IdentityProvider) -> None:
    key = provider.keys["first"]
    now = int(time.time())
    claims = {"sub": "root", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 60}
    refused(broker, provider.token("root", exp=now - 3_600))
    refused(broker, provider.token("root", aud="elsewhere"))
    refused(broker, provider.token("root", iss="https://evil.example"))
    refused(broker, provider.token("ro\not"))
    refused(broker, signed(None, {"alg": "none"}, claims))
    refused(broker, signed(ECKey.generate_key("P-256"), {"alg": "ES256", "kid": "first"}, claims))
    refused(broker, signed(key, {"alg": "RS256", "kid": "no\nsuch"}, claims))
    refused(broker, signed(key, {"alg": "RS256", "kid": "first"}, b"[" * 20_000))
    refused(broker, "opaque")
    client = begun(broker)
    with pytest.raises(ConnectionError):
        said(client, "x" * 100_000)
    log = broker.log_path.read_text()
    lines = [line for line in log.splitlines() if " authentication failed host=127.0.0.1 listener=" in line]
    for told in ("expired", "aud='elsewhere'", "evil.example", "valid user name", "alg='none'", "not for alg=ES256"):
        assert len([line for line in lines if told in line]) == 1, told
    for told in ("'no\\nsuch'", "cannot read its claims", "not a JWT"):
        assert len([line for line in lines if told in line]) == 1, told


@pytest.mark.checklist("G13")
def test_a_token_by_a_new_key_waits_for_it(broker: Broker, provider: IdentityProvider) -> None:
    """The provider has begun to sign with another key; no client is refused because of that."""
    kept = dict(provider.keys)
    fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
    provider.keys = {"fresh": fresh, **kept}

    def enters() -> bool:
        client = begun(broker)
        return not said(client, provider.token("alice")).auth_bytes and works(client)

    # Earlier unknown tokens may have caused a fetch of keys just now: the next fetch waits.
    until(lambda: enters() or time.sleep(0.2))
    assert len(provider.asked) < 10
    provider.keys = kept
    assert works_with(broker, provider.token("alice")), "keys that are known stay until the set is fetched again"


def works_with(broker: Broker, token: str) -> bool:
    client = begun(broker)
    return said(client, token).error_code == 0 and works(client)


def settings_of(broker: Broker) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port_of(broker, 'TOKENS')}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }


def by_secret(broker: Broker, provider: IdentityProvider, secret: str = SECRET) -> dict[str, object]:
    return {
        **settings_of(broker),
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "sasl.oauthbearer.client.credentials.client.id": CLIENT,
        "sasl.oauthbearer.client.credentials.client.secret": secret,
        "sasl.oauthbearer.scope": "a b",
    }


def test_our_own_client(broker: Broker, provider: IdentityProvider, tmp_path: Path) -> None:
    """The client gets tokens by client id and secret, from a file, or from a function; all its connections share one
    token request."""
    topic = f"{TOPIC}-own"
    asked = provider.asked.count("/token")
    with blocking.Producer(by_secret(broker, provider)) as producer:
        producer.send(topic, b"1")
    assert provider.asked.count("/token") == asked + 1
    assert provider.forms[-1] == {"grant_type": "client_credentials", "scope": "a b"}

    file = tmp_path / "token"
    file.write_text(provider.token("alice") + "\n")
    by_file = {**settings_of(broker), "sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    with blocking.AdminClient(by_file) as admin:
        assert topic in admin.list_topics()

    async def token(config: str) -> tuple[str, float]:
        return provider.token("alice", exp=int(time.time()) + 3), time.time() + 3

    with blocking.Producer({**settings_of(broker), "oauth_cb": token}) as producer:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            producer.send(topic, b"2")
            time.sleep(0.1)


def test_native_clients(broker: Broker, provider: IdentityProvider, tmp_path: Path) -> None:
    """The clients of `format("pybroker")`: a token in a file, read at each login."""
    file = tmp_path / "token"
    settings = {**settings_of(broker), "sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    texts = {name: str(value) for name, value in settings.items()}
    for content, told in ((None, "No such file"), ("", "there is no token in it"), ("opaque", "invalid_token")):
        if content is not None:
            file.write_text(content)
        with pytest.raises(NativeError, match=told):
            BlockingClient(texts).cluster_id()
    file.write_text(f"{provider.token('alice')}\n")
    assert BlockingClient(texts).cluster_id() == broker.cluster_id
    url = {**texts, "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token"}
    with pytest.raises(NativeError, match="file:///path"):
        BlockingClient(url).cluster_id()


def test_our_own_client_is_refused(broker: Broker, provider: IdentityProvider, tmp_path: Path) -> None:
    def told(settings: dict[str, object]) -> str:
        with pytest.raises(AuthenticationError) as caught, blocking.AdminClient(settings) as admin:
            admin.list_topics()
        assert SECRET not in str(caught.value)
        return str(caught.value)

    assert "the response has status 401 ('invalid_client')" in told(by_secret(broker, provider, "wrong"))
    bad = {**settings_of(broker), "oauth_cb": lambda _: provider.token("alice", aud="x")}
    assert 'by a token: {"status":"invalid_token"}' in told(bad)
    missing = {**settings_of(broker), "sasl.oauthbearer.token.endpoint.url": (tmp_path / "none").as_uri()}
    assert "No such file or directory" in told(missing)
    for incomplete in (settings_of(broker), {**by_secret(broker, provider), SECRET_NAME: None}):
        with blocking.AdminClient(incomplete) as admin, pytest.raises(ClientConfigError, match=r"requires sasl\.oauth"):
            admin.list_topics()


def test_the_command(broker: Broker, provider: IdentityProvider, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in by_secret(broker, provider).items()))
    server = f"127.0.0.1:{port_of(broker, 'TOKENS')}"
    command = ["topics", "list", "--bootstrap-server", server, "--command-config", str(config)]
    done = subprocess.run([sys.executable, "-m", "pybroker", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_confluent_kafka(broker: Broker, provider: IdentityProvider) -> None:
    """librdkafka with its callback; it logs in again before its token ends, and continues."""
    asked: list[str] = []

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        return provider.token("alice", exp=int(time.time()) + 3), time.time() + 3

    settings = {**settings_of(broker), "sasl.oauthbearer.config": "any", "oauth_cb": token}
    producer = confluent_kafka.Producer(settings)
    reports: list[object] = []
    end = time.monotonic() + NEVER_SECONDS
    while len(asked) < 3 and time.monotonic() < end:
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: reports.append(error))
        producer.poll(0.2)
    assert producer.flush(NEVER_SECONDS) == 0
    assert len(asked) > 1
    assert set(reports) == {None}
    refusals: list[str] = []
    wrong = {"oauth_cb": lambda _: (provider.token("alice", aud="x"), time.time() + 60), "log_level": 0}
    told = {"error_cb": lambda error: refusals.append(error.str())}
    stranger = confluent_kafka.Producer({**settings, **wrong, **told})
    until(lambda: stranger.poll(0.1) or any("invalid_token" in told for told in refusals))


def test_kafka_python(broker: Broker, provider: IdentityProvider) -> None:
    class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]  # published without types
        def token(self) -> str:
            return provider.token("alice")

    producer = kafka.KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{port_of(broker, 'TOKENS')}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    producer.send(TOPIC, b"kafka-python").get(NEVER_SECONDS)
    producer.close()


def test_java(
    broker: Broker, provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own tools, which ask the provider for a token with a client's name and secret."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/token"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", allowed)
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    config = tmp_path / "client.properties"

    def tool(secret: str) -> str:
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f'sasl.jaas.config={module} required clientId="{CLIENT}" clientSecret="{secret}" scope="a";\n'
            "sasl.login.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
            f"sasl.oauthbearer.token.endpoint.url={provider.url}/token\n"
        )
        server = f"127.0.0.1:{port_of(broker, 'TOKENS')}"
        return run_tool("kafka-topics", ["--bootstrap-server", server, "--command-config", str(config), "--list"])

    assert tool(SECRET) is not None
    with pytest.raises(ToolError):
        tool("wrong")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"jwks.endpoint.url": None}, "OAUTHBEARER requires sasl.oauthbearer.jwks.endpoint.url"),
        ({"expected.audience": None}, "sasl.oauthbearer.expected.audience, or sasl.oauthbearer.allow.unverified"),
        ({"expected.issuer": None}, "sasl.oauthbearer.expected.issuer, or sasl.oauthbearer.allow.unverified"),
        ({"jwks.endpoint.url": "ftp://x/y"}, "expected https://host/path or file:///path"),
        ({"jwks.endpoint.url": "https://u:p@x/y"}, "remove user and password from its URL"),
    ],
)
def test_what_stops_the_start(settings: dict[str, str | None], told: str) -> None:
    """Without keys, audience or issuer, any token would be accepted."""
    given = {**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/jwks"}
    for name, value in settings.items():
        if value is None:
            del given[f"sasl.oauthbearer.{name}"]
        else:
            given[f"sasl.oauthbearer.{name}"] = value
    with pytest.raises(ConfigError, match=re.escape(told)):
        load_config(settings=given)


def test_keys_in_plaintext_are_refused_unless_their_url_is_allowed() -> None:
    """The URL uses plain http to another machine. A URL that is allowed by name causes a warning."""
    url, allowed = "http://issuer.example/jwks", "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    for more in ({}, {allowed: "http://issuer.example/other"}):
        with pytest.raises(ConfigError, match=re.escape(f"add the URL to {allowed}")):
            load_config(settings={**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": url, **more})
    for given, warned in (({allowed: f"https://other.example, {url}"}, True), ({}, False)):
        place = url if warned else "http://127.0.0.1/jwks"
        told = load_config(settings={**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": place, **given}).warnings
        assert any("an attacker on the network can replace the keys" in one for one in told) == warned
