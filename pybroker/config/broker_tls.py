"""Broker settings: TLS of listeners, under Kafka's `ssl.*` names, for all listeners or for one by
`listener.name.<listener>.ssl.…`. `security.keystores` reads the files.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.config.setting_values import (
    ConfigKey,
    ConfigType,
    InvalidValue,
    Scope,
    Value,
    not_empty,
    one_of,
    unlike,
)
from pybroker.config.stores import CRL, PEM, CrlFile, StoreFile, StoreText, check_type

STRING, LIST, PASSWORD = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD

PROTOCOLS = ("TLSv1.2", "TLSv1.3")


def _protocols(value: Value) -> None:
    not_empty(value)
    unlike(value)
    for name in value if isinstance(value, tuple) else ():
        if name not in PROTOCOLS:
            raise InvalidValue(f"{name} is not supported; this broker supports {', '.join(PROTOCOLS)}")


_TLS = (
    ConfigKey(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "Format of ssl.keystore.location: PEM, or JKS and PKCS12, which are detected automatically.",
        check_type,
    ),
    ConfigKey(
        "ssl.keystore.location",
        STRING,
        None,
        "File with this broker's private key, its certificate and the intermediate certificates.",
    ),
    ConfigKey(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "Password of ssl.keystore.location, unless it is PEM.",
    ),
    ConfigKey(
        "ssl.key.password",
        PASSWORD,
        None,
        "Password of the private key. Unset: that of the keystore, or none with PEM.",
    ),
    ConfigKey(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "Private key as PEM text instead of a file; requires ssl.keystore.certificate.chain and ssl.keystore.type=PEM.",
    ),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "Certificate and intermediate certificates as PEM text instead of a file.",
    ),
    ConfigKey(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "Format of ssl.truststore.location: PEM, or JKS and PKCS12, which are detected automatically.",
        check_type,
    ),
    ConfigKey(
        "ssl.truststore.location",
        STRING,
        None,
        "File with the CA certificates for clients' certificates.",
    ),
    ConfigKey(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "Password of ssl.truststore.location. Without it the integrity of a JKS file is not checked.",
    ),
    ConfigKey(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "CA certificates as PEM text instead of a file; requires ssl.truststore.type=PEM.",
    ),
    ConfigKey(
        CRL,
        STRING,
        None,
        (
            "File with certificate revocation lists (CRLs, PEM), one of each CA in a certificate's chain. Revoked "
            "certificates are refused. Unset: no check."
        ),
    ),
    ConfigKey(
        "ssl.client.auth",
        STRING,
        "none",
        "Client certificates: required; requested, which also accepts clients without one; or none.",
        one_of("required", "requested", "none"),
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "TLS versions to support.",
        _protocols,
    ),
    ConfigKey(
        "ssl.cipher.suites",
        LIST,
        (),
        "Cipher suites to support, under Java's names. Empty: all that this broker has.",
        unlike,
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        (
            "Rules that map the subject of a client's certificate to its name: DEFAULT is the unchanged subject, "
            "RULE:pattern/replacement/[LU] transforms it. The first matching rule applies."
        ),
    ),
)

RULES = "ssl.principal.mapping.rules"

TLS = tuple(key if key.name == RULES else msgspec.structs.replace(key, scope=Scope.PER_BROKER) for key in _TLS)
"""Dynamic per broker, for all listeners or for one listener. The exception is the principal mapping rules, which are
read at startup."""

BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in TLS}


class TlsSettings(msgspec.Struct, frozen=True):
    """The checked TLS settings of one listener; no file has been read yet."""

    keystore: StoreFile | StoreText
    """Contains the private key."""
    chain: StoreText | None
    """The certificates, if they are not in `keystore`."""
    key_password: str | None
    truststore: StoreFile | StoreText | None
    client_auth: str
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_rules: str = "DEFAULT"
    revoked: CrlFile | None = None

    def __repr__(self) -> str:
        return f"TlsSettings({self.keystore}, {self.truststore}, client_auth={self.client_auth})"

    @property
    def files(self) -> tuple[StoreFile | CrlFile, ...]:
        """The files that the broker reloads when they change."""
        stores = (self.keystore, self.truststore, self.revoked)
        return tuple(store for store in stores if isinstance(store, StoreFile | CrlFile))

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client with the same certificate and truststore."""
        settings: dict[str, str] = {}
        for store in (self.keystore, self.chain, self.truststore, self.revoked):
            settings |= store.client_settings() if store else {}
        return settings if self.key_password is None else {**settings, "ssl.key.password": self.key_password}


def tls_settings(values: Mapping[str, Value]) -> TlsSettings:
    """Check the effective values of one listener, by name. Raises InvalidValue if one is invalid; the text names the
    settings and contains no key.
    """
    text = {name: str(value) if value else None for name, value in values.items() if not isinstance(value, tuple)}
    keystore, chain = _keystore(text)
    truststore = _truststore(text)
    client_auth = text["ssl.client.auth"] or "none"
    if client_auth != "none" and truststore is None:
        raise InvalidValue(
            f"ssl.client.auth={client_auth} requires ssl.truststore.location or ssl.truststore.certificates to verify "
            "clients' certificates"
        )
    protocols, suites = values["ssl.enabled.protocols"], values["ssl.cipher.suites"]
    assert isinstance(protocols, tuple)
    assert isinstance(suites, tuple | None)
    rules = text["ssl.principal.mapping.rules"] or "DEFAULT"
    key_password = text["ssl.key.password"]
    revoked = CrlFile(location) if (location := text[CRL]) else None
    return TlsSettings(keystore, chain, key_password, truststore, client_auth, protocols, suites or (), rules, revoked)


def _keystore(text: Mapping[str, str | None]) -> tuple[StoreFile | StoreText, StoreText | None]:
    key, chain = text["ssl.keystore.key"], text["ssl.keystore.certificate.chain"]
    found = _file(text, "keystore")
    if found and (key or chain):
        raise InvalidValue("ssl.keystore.location and ssl.keystore.key are both set; remove one of them")
    if found:
        return found, None
    if not (key and chain):
        raise InvalidValue(
            "it requires a certificate: set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain"
        )
    _is_pem(text, "keystore", "key")
    return StoreText("ssl.keystore.key", key), StoreText("ssl.keystore.certificate.chain", chain)


def _truststore(text: Mapping[str, str | None]) -> StoreFile | StoreText | None:
    trusted = text["ssl.truststore.certificates"]
    found = _file(text, "truststore")
    if found and trusted:
        raise InvalidValue("ssl.truststore.location and ssl.truststore.certificates are both set; remove one of them")
    if not trusted:
        return found
    _is_pem(text, "truststore", "certificates")
    return StoreText("ssl.truststore.certificates", trusted)


def _file(text: Mapping[str, str | None], store: str) -> StoreFile | None:
    prefix = f"ssl.{store}."
    location = text[f"{prefix}location"]
    if location is None:
        return None
    return StoreFile(prefix, text[f"{prefix}type"] or "JKS", location, text[f"{prefix}password"])


def _is_pem(text: Mapping[str, str | None], store: str, what: str) -> None:
    kind = text[f"ssl.{store}.type"]
    if (kind or "").upper() != PEM:
        raise InvalidValue(f"ssl.{store}.{what} is PEM, and ssl.{store}.type={kind}; set ssl.{store}.type=PEM")
