"""Keystores and truststores: files or texts under Kafka's `ssl.*` names, converted to PEM."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pybroker.config.setting_values import InvalidValue, Value
from pybroker.files import read_regular
from pybroker.native import TlsStore

PEM, JKS = "PEM", "JKS"
TYPES = (PEM, JKS, "PKCS12")

FILE_BYTES_MAX = 1 << 20
"""Size limit of a keystore in bytes. A larger file is probably not a keystore but was named by mistake."""

LISTS_BYTES_MAX = 64 << 20
"""Size limit of a certificate revocation list."""

CRL = "ssl.crl.location"
"""librdkafka's name; Kafka has no such setting."""

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)

_LIST = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)

Marks = tuple[int, int, int] | None


def check_type(value: Value) -> None:
    """Validate `ssl.keystore.type` and `ssl.truststore.type`. Raises InvalidValue."""
    if str(value).upper() not in TYPES:
        raise InvalidValue(f"must be one of {', '.join(TYPES)}")


class StoreFile(NamedTuple):
    """A keystore or truststore in a file. Its repr shows no password."""

    prefix: str
    """Prefix of its settings, such as `ssl.keystore.`."""
    kind: str
    location: str
    password: str | None = None
    setting: str = ""
    """The setting with the file's path, if its name is not `<prefix>location`."""

    def __repr__(self) -> str:
        return f"StoreFile({self.place}, {self.kind})"

    @property
    def place(self) -> str:
        """The setting and its path, for error messages."""
        return f"{self.setting or f'{self.prefix}location'}={self.location}"

    def identity(self, key_password: str | None) -> bytes:
        """Return the unencrypted private key and its certificates as PEM. Raises InvalidValue if the store is unusable.
        """
        return _identity(self._read(), key_password)

    def trusted(self) -> bytes:
        """Return the trusted certificates as PEM. Raises InvalidValue if the store is unusable."""
        return _trusted(self._read())

    def marks(self) -> Marks:
        """Return values that change when the file changes; None if it does not exist."""
        return _marks(self.location)

    def client_settings(self) -> dict[str, str]:
        """Return the client settings for the same store."""
        named = {f"{self.prefix}type": self.kind.upper(), f"{self.prefix}location": self.location}
        return named if self.password is None else {**named, f"{self.prefix}password": self.password}

    def content(self) -> bytes:
        """Return the bytes of the file. Raises InvalidValue if it cannot be read."""
        return _content(self.place, self.location, FILE_BYTES_MAX)

    def _read(self) -> TlsStore:
        return TlsStore(self.prefix, self.place, self.kind, self.content(), self.password)


class CrlFile(NamedTuple):
    """Certificate revocation lists in a PEM file."""

    location: str

    @property
    def place(self) -> str:
        """The setting and its path, for error messages."""
        return f"{CRL}={self.location}"

    def lists(self) -> bytes:
        """Return only the revocation lists in the file, as PEM. Raises InvalidValue if there is no list."""
        found: list[bytes] = _LIST.findall(_content(self.place, self.location, LISTS_BYTES_MAX))
        if not found:
            raise InvalidValue(f"{self.place}: there is no list of revoked certificates (X509 CRL) in it (PEM)")
        return b"\n".join([*found, b""])

    def marks(self) -> Marks:
        """Return values that change when the file changes; None if it does not exist."""
        return _marks(self.location)

    def client_settings(self) -> dict[str, str]:
        """Return the client settings for the same file."""
        return {CRL: self.location}


class StoreText(NamedTuple):
    """PEM text in a setting. Its repr does not show the text."""

    setting: str
    text: str

    def __repr__(self) -> str:
        return f"StoreText({self.setting})"

    def identity(self, key_password: str | None) -> bytes:
        """Return the unencrypted private key and its certificates as PEM. Raises InvalidValue if the text is unusable.
        """
        return _identity(self._read(), key_password)

    def trusted(self) -> bytes:
        """Return the trusted certificates as PEM. Raises InvalidValue if the text is unusable."""
        return _trusted(self._read())

    def client_settings(self) -> dict[str, str]:
        """Return the client settings for the same text."""
        return {self.setting: self.lines}

    @property
    def lines(self) -> str:
        """Return the text with BEGIN and END on separate lines, because a settings file joins all lines into one."""
        return "".join(
            f"-----BEGIN {kind}-----\n{''.join(body.split())}\n-----END {kind}-----\n"
            for kind, body in _BLOCK.findall(self.text)
        )

    def _read(self) -> TlsStore:
        prefix = self.setting.removesuffix("key").removesuffix("certificates").removesuffix("certificate.chain")
        return TlsStore(prefix, self.setting, PEM, self.lines.encode(), None)


class UnreadableFileError(InvalidValue):
    """The file of a setting cannot be read. The text has the reason, for operators."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.hidden = f"{place}: not a readable regular file, or too long"
        """The text without the reason. Clients get this text, because they must not learn which files exist."""


def _content(place: str, location: str, bytes_max: int) -> bytes:
    try:
        content = read_regular(location, bytes_max)
    except OSError as problem:
        raise UnreadableFileError(place, problem.strerror or str(problem)) from None
    if len(content) > bytes_max:
        raise UnreadableFileError(place, f"longer than {bytes_max} bytes; check that it is the right file")
    return content


def _marks(location: str) -> Marks:
    try:
        found = os.stat(location)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _identity(store: TlsStore, key_password: str | None) -> bytes:
    try:
        return store.identity(key_password)
    except ValueError as problem:
        raise InvalidValue(str(problem)) from None


def _trusted(store: TlsStore) -> bytes:
    try:
        return store.trusted()
    except ValueError as problem:
        raise InvalidValue(str(problem)) from None
