"""Broker settings: TLS of listeners, under Kafka's `ssl.*` names, for all of them or for one by
`listener.name.<listener>.ssl.…`. What the files hold is read by `security.keystores`.
"""

# ruff: noqa: E501  (one row of a table, one sentence a setting)
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pybroker.config.values import ConfigKey, ConfigType, InvalidValue, Value, not_empty, one_of

STRING, LIST, PASSWORD = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
PEM = "PEM"


def _store_type(value: Value) -> None:
    if value not in (PEM, "JKS", "PKCS12"):
        raise InvalidValue("must be one of PEM, JKS, PKCS12")


def _protocols(value: Value) -> None:
    not_empty(value)
    for name in value if isinstance(value, tuple) else ():
        if name not in PROTOCOLS:
            raise InvalidValue(f"{name} is not served; this broker has {', '.join(PROTOCOLS)}")


TLS = (
    ConfigKey(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "Format of ssl.keystore.location. PEM is served; JKS, which is Kafka's default, and PKCS12 are not.",
        _store_type,
    ),
    ConfigKey(
        "ssl.keystore.location",
        STRING,
        None,
        "PEM file with this broker's private key, not encrypted, its certificate, and the certificates in between.",
    ),
    ConfigKey(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key as PEM text, not encrypted, instead of a file; with ssl.keystore.certificate.chain.",
    ),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate and those in between as PEM text, instead of a file.",
    ),
    ConfigKey(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "Format of ssl.truststore.location. PEM is served; JKS, which is Kafka's default, and PKCS12 are not.",
        _store_type,
    ),
    ConfigKey(
        "ssl.truststore.location",
        STRING,
        None,
        "PEM file with the certificates of the authorities that clients' certificates must lead to.",
    ),
    ConfigKey(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The same as PEM text, instead of a file.",
    ),
    ConfigKey(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate: required; requested, where those without one are served as well; none.",
        one_of("required", "requested", "none"),
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS that are spoken.",
        _protocols,
    ),
    ConfigKey(
        "ssl.cipher.suites",
        LIST,
        (),
        "Cipher suites that are used, under the names that Java has for them. Empty: all that this broker has.",
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes its name: DEFAULT is the subject as it is, RULE:pattern/replacement/[LU] what a pattern makes of it. The first rule that fits counts.",
    ),
)
"""Read at the start."""

BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in TLS}


class TlsSettings(NamedTuple):
    """Of one listener, checked; no file has been read."""

    keystore: str | None
    key: str | None
    chain: str | None
    truststore: str | None
    trusted: str | None
    client_auth: str
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_rules: str = "DEFAULT"

    def __repr__(self) -> str:
        return f"TlsSettings(keystore={self.keystore}, truststore={self.truststore}, client_auth={self.client_auth})"


def tls_settings(values: Mapping[str, Value]) -> TlsSettings:
    """From the values in force for one listener, by name. Raises InvalidValue, which names the settings, never with a
    key in it."""
    text = {name: str(value) if value else None for name, value in values.items() if not isinstance(value, tuple)}
    keystore, key, chain = (
        text["ssl.keystore.location"],
        text["ssl.keystore.key"],
        text["ssl.keystore.certificate.chain"],
    )
    if keystore and (key or chain):
        raise InvalidValue("ssl.keystore.location and ssl.keystore.key are two keystores; remove one of them")
    if not keystore and not (key and chain):
        raise InvalidValue(
            "it needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain"
        )
    truststore, trusted = text["ssl.truststore.location"], text["ssl.truststore.certificates"]
    if truststore and trusted:
        raise InvalidValue(
            "ssl.truststore.location and ssl.truststore.certificates are two truststores; remove one of them"
        )
    for store, given in (("keystore", keystore or key), ("truststore", truststore or trusted)):
        kind = text[f"ssl.{store}.type"]
        if given and kind != PEM:
            raise InvalidValue(f"ssl.{store}.type={kind} is not served; convert it to PEM and set ssl.{store}.type=PEM")
    client_auth = text["ssl.client.auth"] or "none"
    if client_auth != "none" and not (truststore or trusted):
        raise InvalidValue(
            f"ssl.client.auth={client_auth} needs ssl.truststore.location or ssl.truststore.certificates: whom to trust"
        )
    protocols, suites = values["ssl.enabled.protocols"], values["ssl.cipher.suites"]
    assert isinstance(protocols, tuple)
    assert isinstance(suites, tuple | None)
    rules = text["ssl.principal.mapping.rules"] or "DEFAULT"
    return TlsSettings(keystore, key, chain, truststore, trusted, client_auth, protocols, suites or (), rules)
