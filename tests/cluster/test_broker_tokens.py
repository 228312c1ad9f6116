"""Brokers that log in to each other with tokens of an identity provider (OAUTHBEARER), which they get over https."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from tests.support.brokers import BrokerProcess
from tests.support.certificates import Authority
from tests.support.cluster import described, new_cluster, until
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOPIC = "by-tokens"
BROKERS = {1, 2, 3}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def provider(authority: Authority) -> Iterator[IdentityProvider]:
    with IdentityProvider().serving(authority.identity("issuer")) as made:
        yield made


def settings(provider: IdentityProvider, authority: Authority, secret: str = SECRET) -> dict[str, str]:
    """Return the settings, with the names in Kafka's documentation."""
    line = (
        f'{MODULE} required clientId="{CLIENT}" clientSecret="{secret}" scope="brokers" ssl.truststore.type=PEM '
        f'ssl.truststore.location="{authority.certificate}";'
    )
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.between.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.between.oauthbearer.sasl.jaas.config": line,
        "listener.name.between.oauthbearer.sasl.login.callback.handler.class": handler,
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/jwks",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "super.users": f"User:{CLIENT}",
    }


def in_sync(admin: blocking.AdminClient) -> set[int]:
    return {node.id for node in described(admin, TOPIC).partitions[0].isr}


def test_brokers_copy_for_longer_than_a_token_lives(
    provider: IdentityProvider, authority: Authority, tmp_path: Path
) -> None:
    """Sessions end with their token, so followers and the controller log in again and again."""
    provider.lifetime_s = provider.told_s = 10
    with new_cluster(tmp_path / "cluster", 3, settings(provider, authority)) as cluster:
        cluster.start()
        where = {"bootstrap.servers": cluster.bootstrap}
        with blocking.AdminClient(where) as admin, blocking.Producer({**where, "acks": "all"}) as producer:
            admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "3"})])
            began = time.monotonic()
            while time.monotonic() < began + 3 * provider.lifetime_s:
                producer.send(TOPIC, b"x")
            assert len(provider.forms) > 2 * len(BROKERS)
            assert {form["scope"] for form in provider.forms} == {"brokers"}
            cluster.brokers[2].kill()
            cluster.brokers[2].start()
            until(lambda: in_sync(admin) == BROKERS)
        for broker in cluster.brokers.values():
            assert SECRET not in broker.console.read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"super.users": ""}, "the broker users are unknown; name the users of the brokers' tokens in super.users"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "sasl.oauthbearer.token.endpoint.url"),
        ({"listener.name.between.sasl.enabled.mechanisms": "PLAIN"}, "listener BETWEEN serves PLAIN only"),
        ({"secret": "wrong-secret"}, "cannot get a token to log in to other brokers"),
    ],
)
def test_what_a_broker_cannot_log_in_with_stops_its_start(
    provider: IdentityProvider, authority: Authority, tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    given = settings(provider, authority, changes.pop("secret", SECRET)) | changes
    with new_cluster(tmp_path / "cluster", 1, given) as cluster:
        broker = cluster.brokers[1]
        said = refusal(broker)
        assert words in said, said
        assert "secret" not in said.replace("client.secret", "").replace("clientSecret", "")
        assert "Traceback" not in said


def refusal(broker: BrokerProcess) -> str:
    """Return the last line of a broker that does not start."""
    broker.launch()
    until(broker.ended)
    return broker.console.read_text()
