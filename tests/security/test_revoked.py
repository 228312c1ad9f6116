"""Certificates that their authority has revoked (`ssl.crl.location`): those of clients at listeners, and those of
brokers at clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import confluent_kafka
import pytest
from click.testing import CliRunner

from pybroker import Broker
from pybroker.cli import cli
from pybroker.client import AdminClient
from pybroker.client.client_errors import BrokerConnectionError, ClientConfigError
from pybroker.native import BlockingClient, NativeError
from pybroker.protocol import messages as m
from pybroker.testing.broker import BrokerProcessError
from tests.security.kit import call, through_tls, until
from tests.support.certificates import Authority
from tests.support.memory import resident_mib

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
GIVE_UP_S = 120
MANY = 200
NO_MORE_MIB = 64
API_VERSIONS = bytes.fromhex("0000000e0012000000000001000474657374")


class Listener:
    """Settings of a listener that requires certificates, and its revocation list."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self.good, self.bad = (self.authority.identity(name) for name in ("good", "bad"))
        self.list = self.authority.revoked("bad", place=folder / "revoked.pem")

    @property
    def settings(self) -> dict[str, str]:
        return {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.identity("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "ssl.client.auth": "required",
            "ssl.crl.location": str(self.list),
        }

    def showing(self, identity: Path, version: str = "TLSv1.3") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(str(identity))
        context.minimum_version = context.maximum_version = VERSIONS[version]
        return context


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    return Listener(tmp_path)


@pytest.fixture
def broker(listener: Listener) -> Iterator[Broker]:
    with Broker(listener.settings) as broker:
        yield broker


def is_served(port: int, context: ssl.SSLContext) -> bool:
    """TLS 1.3 shows the client the refusal only with the first response."""
    try:
        with through_tls(port, context) as client:
            return bool(call(client, m.ApiVersionsRequest(), 0).error_code == 0)
    except (ssl.SSLError, ConnectionError):
        return False


def lines(broker: Broker, words: str) -> list[str]:
    return [line for line in broker.log_path.read_text().splitlines() if words in line]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_auth", ["required", "requested"])
def test_who_shows_a_revoked_certificate_is_refused_and_named(
    listener: Listener, version: str, client_auth: str
) -> None:
    with Broker({**listener.settings, "ssl.client.auth": client_auth}) as broker:
        assert is_served(broker.port, listener.showing(listener.good, version))
        for _ in range(3):
            assert not is_served(broker.port, listener.showing(listener.bad, version))
        until(lambda: lines(broker, "on listener SSL closed: the TLS handshake failed: a certificate is revoked"))
        (line,) = lines(broker, "is revoked")
        assert "ssl.crl.location: that of CN=bad, serial number " in line
        assert is_served(broker.port, listener.showing(listener.good, version))


def test_a_client_hears_which_it_is(broker: Broker, listener: Listener) -> None:
    """The alert says that the certificate is revoked, in TLS 1.2 during the handshake."""
    with pytest.raises(ssl.SSLError, match="revoked"):
        through_tls(broker.port, listener.showing(listener.bad, "TLSv1.2"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_list_counts_at_once_and_for_old_sessions_too(
    broker: Broker, listener: Listener, version: str
) -> None:
    context = listener.showing(listener.good, version)
    address = ("127.0.0.1", broker.port)
    with socket.create_connection(address) as plain:
        secured = context.wrap_socket(plain, server_hostname="localhost")
        secured.sendall(API_VERSIONS)
        assert secured.recv(65536)
        session = secured.session
    assert session is not None

    def resumes() -> bool:
        with contextlib.suppress(ssl.SSLError, ConnectionError), socket.create_connection(address) as again:
            secured = context.wrap_socket(again, server_hostname="localhost", session=session)
            secured.sendall(API_VERSIONS)
            return bool(secured.recv(65536)) and bool(secured.session_reused)
        return False

    assert resumes()
    listener.list.write_text("no list")
    until(lambda: lines(broker, "the earlier ones stay in use"))
    assert lines(broker, "there is no list of revoked certificates (X509 CRL) in it (PEM)")
    assert is_served(broker.port, context)
    listener.authority.revoked("good", place=listener.list)
    until(lambda: not is_served(broker.port, context))
    assert not resumes()
    assert is_served(broker.port, listener.showing(listener.bad, version))


def test_no_list_of_the_authority_and_one_out_of_date_vouch_for_nobody(listener: Listener, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other")
    other.revoked(place=listener.list)
    with Broker(listener.settings) as broker:
        assert not is_served(broker.port, listener.showing(listener.good))
        until(lambda: lines(broker, "ssl.crl.location has no list of an authority that vouches for CN=good"))
        old = listener.authority.revoked(hours=0)
        time.sleep(2)
        old.rename(listener.list)
        until(lambda: lines(broker, "reloaded the files of a listener's ssl.* settings"))
        assert not is_served(broker.port, listener.showing(listener.good))
        # The line appears once a minute for each address; another address logs it now.
        plain = socket.create_connection(("127.0.0.1", broker.port), source_address=("127.0.0.9", 0))
        with plain, contextlib.suppress(ssl.SSLError, ConnectionError):
            listener.showing(listener.good).wrap_socket(plain, server_hostname="localhost").recv(1)
        until(lambda: lines(broker, "the list in ssl.crl.location is out of date"))
        listener.authority.revoked(place=listener.list)
        until(lambda: is_served(broker.port, listener.showing(listener.good)))


def test_lists_that_cannot_be_used_stop_the_start(listener: Listener) -> None:
    spoiled = listener.list.read_text().replace("MI", "AA", 1)
    for content, words in [
        (None, "ssl.crl.location="),
        ("", "there is no list of revoked certificates (X509 CRL) in it (PEM)"),
        (listener.good.read_text(), "there is no list of revoked certificates (X509 CRL) in it (PEM)"),
        (spoiled, "listener SSL: ssl.crl.location: "),
    ]:
        listener.list.unlink()
        if content is not None:
            listener.list.write_text(content)
        with pytest.raises(BrokerProcessError) as caught:
            Broker(listener.settings).start()
        listener.list.touch()
        assert words in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_a_crowd_with_a_revoked_certificate_costs_little(broker: Broker, listener: Listener) -> None:
    """The revocation list may have many thousands of certificates."""
    assert not is_served(broker.port, listener.showing(listener.bad))
    before = resident_mib(broker.pid)
    context = listener.showing(listener.bad)
    began = time.monotonic()
    for _ in range(MANY):
        assert not is_served(broker.port, context)
    assert time.monotonic() - began < GIVE_UP_S
    assert resident_mib(broker.pid) - before < NO_MORE_MIB
    assert len(lines(broker, "is revoked")) < 3
    assert is_served(broker.port, listener.showing(listener.good))


# Clients ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def revoked_broker(listener: Listener, tmp_path: Path) -> Iterator[tuple[Broker, dict[str, str]]]:
    """A broker with a revoked certificate, and a client's settings without the revocation list."""
    own = {name: text for name, text in listener.settings.items() if name not in ("ssl.crl.location",)}
    with Broker({**own, "ssl.client.auth": "none", "auto.create.topics.enable": "true"}) as broker:
        nobody = listener.authority.revoked(place=tmp_path / "nobody.pem")
        yield (
            broker,
            {
                "bootstrap.servers": broker.bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.location": str(listener.authority.certificate),
                "ssl.crl.location": str(nobody),
            },
        )


async def listed(settings: Mapping[str, str]) -> int:
    async with AdminClient({**settings, "default.api.timeout.ms": "5000"}) as admin:
        return len(await admin.list_topics())


def by_cli(settings: Mapping[str, str], folder: Path) -> tuple[int, str]:
    place = folder / "client.properties"
    place.write_text("".join(f"{name}={text}\n" for name, text in settings.items() if name != "bootstrap.servers"))
    at = ("--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(place))
    done = CliRunner().invoke(cli, ["topics", "list", *at])
    return done.exit_code, done.output


def test_clients_refuse_a_broker_whose_certificate_is_revoked(
    revoked_broker: tuple[Broker, dict[str, str]], listener: Listener, tmp_path: Path
) -> None:
    """The clients are pybroker.client, the CLI, Spark's client, and librdkafka, which has the same setting."""
    _, settings = revoked_broker
    assert asyncio.run(listed(settings)) >= 0
    assert by_cli(settings, tmp_path)[0] == 0
    assert BlockingClient(settings).cluster_id()
    assert confluent_kafka.Producer(dict(settings)).list_topics(timeout=GIVE_UP_S).brokers

    listener.authority.revoked("broker", place=Path(settings["ssl.crl.location"]))
    with pytest.raises(BrokerConnectionError, match="revoked"):
        asyncio.run(listed(settings))
    code, output = by_cli(settings, tmp_path)
    assert code != 0
    assert "revoked" in output
    with pytest.raises(NativeError, match=r"the broker's certificate is revoked, says kafka\.ssl\.crl\.location"):
        BlockingClient(settings).cluster_id()
    other = Authority(tmp_path / "other", "other").revoked()
    with pytest.raises(NativeError, match="has no list of an authority that vouches for the broker's certificate"):
        BlockingClient({**settings, "ssl.crl.location": str(other)}).cluster_id()
    with pytest.raises(confluent_kafka.KafkaException):
        confluent_kafka.Producer(dict(settings)).list_topics(timeout=5)


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), ("", "there is no list of revoked certificates")]
)
def test_lists_of_clients_that_cannot_be_used_are_named(
    revoked_broker: tuple[Broker, dict[str, str]], content: str | None, words: str
) -> None:
    _, settings = revoked_broker
    place = Path(settings["ssl.crl.location"])
    place.unlink()
    if content is not None:
        place.write_text(content)
    with pytest.raises(ClientConfigError, match=rf"ssl\.crl\.location=.*{words}"):
        asyncio.run(listed(settings))
    with pytest.raises(NativeError, match=rf"kafka\.ssl\.crl\.location=.*{words}"):
        BlockingClient(settings).cluster_id()
