"""Keystores and truststores as keytool and OpenSSL write them: PKCS12, JKS, and keys with a password."""

from __future__ import annotations

import re
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.client import blocking
from pybroker.client.client_errors import ClientConfigError
from pybroker.config.setting_values import InvalidValue
from pybroker.config.stores import StoreFile
from pybroker.native import BlockingClient, NativeError
from pybroker.protocol import messages as m
from pybroker.testing.broker import BrokerProcessError
from tests.security.kit import call, port_of, through_tls, until
from tests.support.certificates import Authority
from tests.support.keystores import LEGACY, PASSWORD, converted, keytool, pkcs12, run, truststore

KEY_PASSWORD = "key-secret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stores(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Write the same identity and the same trusted certificate in each form."""
    folder = tmp_path_factory.mktemp("stores")
    identity = authority.identity("broker")
    openssl = pkcs12(folder / "openssl.p12", identity, authority.certificate)
    encrypted = folder / "encrypted.pem"
    run("openssl", "pkcs8", "-topk8", "-in", str(identity), "-out", str(encrypted), "-passout", f"pass:{KEY_PASSWORD}")
    certificate = identity.read_text().partition("-----BEGIN CERTIFICATE-----")
    encrypted.write_text(encrypted.read_text() + "".join(certificate[1:]))
    return {
        "openssl": openssl,
        "openssl legacy": pkcs12(folder / "old.p12", identity, authority.certificate, legacy=True),
        "keytool": converted(folder / "keytool.p12", openssl, "PKCS12"),
        "keytool legacy": converted(folder / "keytool-old.p12", openssl, "PKCS12", LEGACY),
        "jks": converted(folder / "keytool.jks", openssl, "JKS", key_password=KEY_PASSWORD),
        "jks, one password": converted(folder / "one.jks", openssl, "JKS"),
        "encrypted": encrypted,
        "trusted p12": truststore(folder / "trusted.p12", authority.certificate, "PKCS12"),
        "trusted legacy": truststore(folder / "trusted-old.p12", authority.certificate, "PKCS12", LEGACY),
        "trusted jks": truststore(folder / "trusted.jks", authority.certificate, "JKS"),
    }


def keystore(path: Path, kind: str, password: str | None = PASSWORD) -> StoreFile:
    return StoreFile("ssl.keystore.", kind, str(path), password)


def der(pem: bytes) -> bytes:
    """Return the DER form of the certificate."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    body = pem.decode().partition(begin)[2].partition(end)[0]
    return ssl.PEM_cert_to_DER_cert(f"{begin}{body}{end}")


@pytest.mark.parametrize(
    ("name", "kind", "key_password"),
    [
        ("openssl", "PKCS12", None),
        ("openssl legacy", "PKCS12", PASSWORD),
        ("keytool", "PKCS12", None),
        ("keytool legacy", "pkcs12", None),
        ("jks", "JKS", KEY_PASSWORD),
        ("jks, one password", "JKS", None),
        # As in Java: the two kinds are recognized by their content.
        ("keytool", "JKS", None),
        ("jks", "PKCS12", KEY_PASSWORD),
    ],
)
def test_the_same_identity_comes_out(
    stores: Mapping[str, Path], authority: Authority, name: str, kind: str, key_password: str | None
) -> None:
    pem = keystore(stores[name], kind).identity(key_password)
    expected = stores[name].parent / "expected.pem"
    expected.write_bytes(pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # This checks that the key matches the certificate.
    context.load_cert_chain(str(expected))
    assert der(pem) == der(authority.identity_text("broker"))


def test_trusted_certificates(stores: Mapping[str, Path], authority: Authority) -> None:
    expected = ssl.PEM_cert_to_DER_cert(authority.certificate.read_text())
    for name in ("trusted p12", "trusted legacy", "trusted jks", "openssl"):
        found = StoreFile("ssl.truststore.", "JKS", str(stores[name]), PASSWORD).trusted()
        assert ssl.PEM_cert_to_DER_cert(found.decode()) == expected, name
    unchecked = StoreFile("ssl.truststore.", "JKS", str(stores["trusted jks"]), None).trusted()
    assert ssl.PEM_cert_to_DER_cert(unchecked.decode()) == expected


def refusal(store: StoreFile, key_password: str | None = None) -> str:
    with pytest.raises(InvalidValue) as caught:
        store.identity(key_password) if store.prefix == "ssl.keystore." else store.trusted()
    told = str(caught.value).replace(store.location, "…")
    assert "\n" not in told
    return told


def test_what_cannot_be_used_is_one_line_with_the_setting(
    stores: Mapping[str, Path], authority: Authority, tmp_path: Path
) -> None:
    place = "ssl.keystore.location=…"
    for name in ("openssl", "keytool legacy", "jks"):
        wrong = keystore(stores[name], "JKS", "another")
        assert refusal(wrong) == f"ssl.keystore.password: it is not the password of {place}"
        missing = keystore(stores[name], "JKS", None)
        assert refusal(missing) == f"ssl.keystore.password: it is not set, and needed for {place}"
        key = f"ssl.key.password: it does not open the private key broker in {place}"
        assert refusal(keystore(stores[name], "JKS"), "another") == key
    assert refusal(keystore(stores["jks"], "JKS")) == key
    for name in ("trusted p12", "trusted jks"):
        assert refusal(keystore(stores[name], "JKS")) == f"{place}: there is no private key in it"
        wrong = StoreFile("ssl.truststore.", "JKS", str(stores[name]), "another")
        assert refusal(wrong) == "ssl.truststore.password: it is not the password of ssl.truststore.location=…"
    assert refusal(keystore(stores["jks"], "PEM")) == f"{place}: it is JKS; set ssl.keystore.type=JKS"
    assert refusal(keystore(stores["keytool"], "PEM")) == f"{place}: it is PKCS12; set ssl.keystore.type=PKCS12"
    assert refusal(keystore(stores["encrypted"], "JKS")) == f"{place}: it is PEM; set ssl.keystore.type=PEM"
    text = tmp_path / "text"
    text.write_text("what is this")
    assert refusal(keystore(text, "JKS")) == f"{place}: it is neither PKCS12 nor JKS"
    text.write_bytes(stores["keytool"].read_bytes()[:-100])
    assert refusal(keystore(text, "JKS")).startswith(f"{place}: it cannot be read as PKCS12: ")
    text.write_bytes(stores["jks"].read_bytes()[:-100])
    assert refusal(keystore(text, "JKS")) == f"{place}: it is JKS, but cut off or damaged"


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_two_private_keys_are_one_too_many(tmp_path: Path, kind: str) -> None:
    two = tmp_path / "two"
    for alias in ("old", "new"):
        keytool("-genkeypair", "-alias", alias, "-keyalg", "EC", "-dname", f"CN={alias}", "-keystore", str(two),
                "-storetype", kind, "-keypass", PASSWORD)  # fmt: skip
    told = "there are 2 private keys in it (new, old), and only one can be shown; leave one in it"
    assert refusal(keystore(two, kind)) == f"ssl.keystore.location=…: {told}"
    java = tmp_path / "other"
    keytool("-genseckey", "-alias", "x", "-keyalg", "AES", "-keysize", "256", "-keystore", str(java),
            "-storetype", "JCEKS", "-keypass", PASSWORD)  # fmt: skip
    assert "it is JCEKS" in refusal(keystore(java, kind))


def test_keys_in_pem_may_have_a_password(stores: Mapping[str, Path], authority: Authority, tmp_path: Path) -> None:
    place = "ssl.keystore.location=…"
    store = keystore(stores["encrypted"], "PEM", None)
    assert der(store.identity(KEY_PASSWORD)) == der(authority.identity_text("broker"))
    assert refusal(store) == f"ssl.key.password: it is not set, and needed for the private key in {place}"
    assert refusal(store, "another") == f"ssl.key.password: it does not open the private key in {place}"
    told = "ssl.keystore.password has no meaning for PEM, where only a key may have a password (ssl.key.password)"
    assert refusal(store._replace(password="x"), KEY_PASSWORD) == f"{told}; remove it"
    old = tmp_path / "old.pem"
    run("openssl", "ec", "-aes128", "-in", str(authority.identity("broker")), "-out", str(old), "-passout", "pass:abcd")
    assert "older form; convert it with openssl pkcs8 -topk8" in refusal(keystore(old, "PEM", None), "abcd")
    for cipher in ("aes-128-cbc", "aes-256-cbc", "des3"):
        run("openssl", "pkcs8", "-topk8", "-v2", cipher, "-in", str(authority.identity("broker")), "-out", str(old),
            "-passout", "pass:abcd")  # fmt: skip
        assert b"BEGIN PRIVATE KEY" in keystore(old, "PEM", None).identity("abcd"), cipher


def test_pem_as_people_write_it(authority: Authority, tmp_path: Path) -> None:
    """Files may have editors' byte order marks, older labels of OpenSSL, comments in any encoding, and PKCS#12's
    algorithms for keys."""
    identity, file = authority.identity("broker"), tmp_path / "store.pem"
    own = identity.read_text()
    certificate = "-----BEGIN CERTIFICATE-----" + own.split("-----BEGIN CERTIFICATE-----")[1]
    trusted = subprocess.run(
        ["openssl", "x509", "-trustout"], input=certificate, capture_output=True, text=True, check=True
    ).stdout
    assert "BEGIN TRUSTED CERTIFICATE" in trusted
    older = re.sub("(BEGIN|END) CERTIFICATE", r"\1 X509 CERTIFICATE", own)
    for content in (
        b"\xef\xbb\xbf" + own.encode(),
        b"friendlyName: Pr\xfcfstand\n" + own.replace("\n", "\r\n").encode(),
        older.encode(),
        own.replace(certificate, trusted).encode(),
    ):
        file.write_bytes(content)
        assert der(keystore(file, "PEM", None).identity(None)) == der(own.encode())
        assert der(StoreFile("ssl.truststore.", "PEM", str(file)).trusted()) == der(certificate.encode())
    run("openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", str(identity), "-out", str(file),
        "-passout", "pass:abcd")  # fmt: skip
    assert b"BEGIN PRIVATE KEY" in keystore(file, "PEM", None).identity("abcd")
    place = "ssl.keystore.location=…"
    told = f"ssl.key.password: it does not open the private key in {place}"
    assert refusal(keystore(file, "PEM", None), "another") == told
    file.write_text(own + own)
    told = "there are 2 private keys in it, and only one can be shown; leave one in it"
    assert refusal(keystore(file, "PEM", None)) == f"{place}: {told}"
    file.write_text(own[: own.index("-----END") - 10])
    assert refusal(keystore(file, "PEM", None)) == f"{place}: its private key is cut off"


def test_listeners_with_each_kind(stores: Mapping[str, Path], authority: Authority) -> None:
    """The default type is JKS, as in Kafka."""
    text = stores["encrypted"].read_text()
    key, begin, chain = text.partition("-----BEGIN CERTIFICATE-----")
    settings = {
        "listeners": "SSL://127.0.0.1:0,JKS://127.0.0.1:0,TEXT://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,JKS:SSL,TEXT:SSL",
        "ssl.keystore.location": str(stores["keytool"]),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(stores["trusted p12"]),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
        "listener.name.jks.ssl.keystore.location": str(stores["jks"]),
        "listener.name.jks.ssl.key.password": KEY_PASSWORD,
        "listener.name.jks.ssl.truststore.type": "PKCS12",
        "listener.name.text.ssl.keystore.location": "",
        "listener.name.text.ssl.keystore.type": "PEM",
        "listener.name.text.ssl.keystore.key": " ".join(key.split("\n")),
        "listener.name.text.ssl.keystore.certificate.chain": " ".join((begin + chain).split("\n")),
        "listener.name.text.ssl.key.password": KEY_PASSWORD,
    }
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(str(authority.identity("client")))
    with Broker(settings) as broker:
        for listener in ("SSL", "JKS", "TEXT"):
            client = through_tls(port_of(broker, listener), context)
            assert call(client, m.ApiVersionsRequest(), 0).error_code == 0
            client.close()
        # A store with another password that replaces the file cannot be used.
        log = broker.log_path.read_text
        store = stores["keytool"]
        content = store.read_bytes()
        keytool("-storepasswd", "-new", "another", "-keystore", str(store))
        until(lambda: "ssl.keystore.password: it is not the password of" in log())
        store.write_bytes(content)
        until(lambda: "ssl.* settings for new connections listener=SSL" in log())
        assert PASSWORD not in log()
    with pytest.raises(BrokerProcessError, match=r"listener SSL: ssl\.keystore\.password: it is not the password of"):
        Broker({**settings, "ssl.keystore.password": "another"}).start()


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
@pytest.mark.parametrize("curve", ["secp256r1", "secp384r1"])
def test_elliptic_keys_that_java_made(tmp_path: Path, kind: str, curve: str) -> None:
    """keytool writes them without their certificate, which TLS needs."""
    store, trusted = tmp_path / "store", tmp_path / "trusted.pem"
    where = ("-alias", "own", "-keystore", str(store), "-storetype", kind)
    names = ("-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1,dns:localhost")
    keytool("-genkeypair", "-keyalg", "EC", "-groupname", curve, *where, *names, "-keypass", PASSWORD)
    keytool("-exportcert", "-rfc", "-file", str(trusted), *where)
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
    }
    with Broker(settings) as broker:
        client = through_tls(port_of(broker, "SSL"), ssl.create_default_context(cafile=str(trusted)))
        assert call(client, m.ApiVersionsRequest(), 0).error_code == 0
        client.close()


def test_clients_have_the_same_stores(stores: Mapping[str, Path], authority: Authority, tmp_path: Path) -> None:
    """pybroker.client, the command line's settings, and native clients (`format("pybroker")`)."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.identity("broker-of-clients")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
    }
    trusted = {"ssl.truststore.location": str(stores["trusted jks"]), "ssl.truststore.password": PASSWORD}
    shown = {
        "ssl.keystore.location": str(stores["jks"]),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
    }
    with Broker(settings) as broker:
        common = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SSL"}
        for more in (
            {**trusted, **shown},
            {**trusted, **shown, "ssl.keystore.type": "JKS", "ssl.truststore.type": "JKS"},
            {
                **trusted,
                "ssl.truststore.location": str(stores["trusted p12"]),
                "ssl.keystore.location": str(stores["encrypted"]),
                "ssl.key.password": KEY_PASSWORD,
            },
        ):
            with blocking.AdminClient({**common, **more}) as admin:
                assert admin.describe_cluster().nodes
            assert BlockingClient({**common, **more}).cluster_id()
        line = f"ssl.keystore.password: it is not the password of ssl.keystore.location={stores['jks']}"
        wrong = {**common, **trusted, **shown, "ssl.keystore.password": "another"}
        with pytest.raises(ClientConfigError, match=re.escape(line)), blocking.AdminClient(wrong) as admin:
            admin.describe_cluster()
        line = line.replace("ssl.", "kafka.ssl.")
        with pytest.raises(NativeError, match=re.escape(line)):
            BlockingClient(wrong).cluster_id()
