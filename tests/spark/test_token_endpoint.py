"""Jobs that log in with tokens of an identity provider, which every Python process requests over https."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pybroker.native import BlockingClient
from pybroker.spark.source_errors import OptionError, TokenError
from pybroker.spark.token_source import with_token
from tests.spark.jobs import Jobs
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.certificates import Authority
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider
from tests.support.wire import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def provider(authority: Authority) -> Iterator[IdentityProvider]:
    with IdentityProvider().serving(authority.identity("issuer")) as made:
        yield made


@pytest.fixture
def guarded(tmp_path: Path, provider: IdentityProvider, authority: Authority) -> Iterator[tuple[BrokerProcess, str]]:
    """pybroker with a listener in the clear, and the address of one that takes the provider's tokens."""
    broker = PybrokerProcess(tmp_path / "guarded")
    address = f"127.0.0.1:{free_port()}"
    broker.settings.update(
        {
            "listeners": f"PLAINTEXT://{broker.bootstrap},LOGIN://{address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/jwks",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": "0",
            "listener.name.login.oauthbearer.sasl.jaas.config": f"{MODULE} required ssl.truststore.type=PEM "
            f'ssl.truststore.location="{authority.certificate}";',
        }
    )
    broker.start()
    yield broker, address
    broker.kill()


def login(provider: IdentityProvider, authority: Authority, secret: str = SECRET) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "sasl.oauthbearer.client.credentials.client.id": CLIENT,
        "sasl.oauthbearer.client.credentials.client.secret": secret,
        "sasl.oauthbearer.scope": "records",
        "https.ca.location": str(authority.certificate),
    }


def test_a_job_writes_and_reads(
    spark: SparkSession,
    guarded: tuple[BrokerProcess, str],
    provider: IdentityProvider,
    authority: Authority,
    topic: str,
) -> None:
    """A batch in both directions; driver and executors request tokens, and a wrong secret is reported at once and never
    shown."""
    broker, address = guarded
    Jobs(spark, broker.bootstrap).create(topic)
    jobs = Jobs(spark, address)
    given = {f"kafka_{name.replace('.', '_')}": text for name, text in login(provider, authority).items()}
    for mode in ("exactly-once", "append"):
        jobs.write(jobs.rows(200, mode), topic, mode=mode, **given)
    assert len(jobs.values(topic, **given)) == 400
    assert {one["scope"] for one in provider.forms} == {"records"}
    assert {one["grant_type"] for one in provider.forms} == {"client_credentials"}
    wrong = {**given, "kafka_sasl_oauthbearer_client_credentials_client_secret": "wrong-secret"}
    with pytest.raises(Exception, match=r"kafka\.sasl\.oauthbearer\.token\.endpoint\.url=.*invalid_client") as refused:
        jobs.values(topic, **wrong)
    assert "wrong-secret" not in str(refused.value)


def test_a_process_renews_its_token_and_asks_once_for_all(
    guarded: tuple[BrokerProcess, str], provider: IdentityProvider, authority: Authority
) -> None:
    provider.lifetime_s = provider.told_s = 5
    _, address = guarded
    settings = {**login(provider, authority), "bootstrap.servers": address}
    first = with_token(settings)
    assert with_token(settings) == first
    assert len(provider.forms) == 1
    end = time.monotonic() + 120
    while len(provider.forms) < 4 and time.monotonic() < end:
        time.sleep(0.1)
    # The first token ended long ago.
    assert BlockingClient(first).cluster_id()


def test_java_s_way_of_saying_it(
    guarded: tuple[BrokerProcess, str], provider: IdentityProvider, authority: Authority
) -> None:
    """Client id and secret in the login module's line, and the CA to trust."""
    _, address = guarded
    line = (
        f'{MODULE} required clientId="{CLIENT}" clientSecret="{SECRET}" ssl.truststore.type=PEM '
        f'ssl.truststore.location="{authority.certificate}";'
    )
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "sasl.jaas.config": line,
    }
    assert BlockingClient(with_token(settings)).cluster_id()


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"sasl.oauthbearer.client.credentials.client.id": ""}, OptionError, "client.id"),
        ({"https.ca.location": "/dev/null"}, OptionError, "https.ca.location"),
        ({"sasl.oauthbearer.client.credentials.client.secret": "no"}, TokenError, "invalid_client"),
    ],
)
def test_what_cannot_be_asked_is_named(
    provider: IdentityProvider, authority: Authority, changes: dict[str, str], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        with_token({**login(provider, authority), **changes})
    assert SECRET not in str(caught.value)


def test_a_provider_that_is_not_trusted_gets_no_secret(provider: IdentityProvider, authority: Authority) -> None:
    settings = {**login(provider, authority), "sasl.login.retry.backoff.max.ms": "1"}
    del settings["https.ca.location"]
    with pytest.raises(TokenError, match="certificate"):
        with_token(settings)
    assert provider.asked == []
