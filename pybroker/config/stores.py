"""Keystores and truststores: files or texts under Kafka's `ssl.*` names, read into PEM.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pybroker.config.values import InvalidValue, Value
from pybroker.native import TlsStore

PEM, JKS = "PEM", "JKS"
TYPES = (PEM, JKS, "PKCS12")

FILE_BYTES_MAX = 1 << 20
"""Longer than any keystore: something else was named by mistake."""

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)

Marks = tuple[int, int, int] | None


def check_type(value: Value) -> None:
    """Of `ssl.keystore.type` and `ssl.truststore.type`; raises InvalidValue."""
    if str(value).upper() not in TYPES:
        raise InvalidValue(f"must be one of {', '.join(TYPES)}")


class StoreFile(NamedTuple):
    """A store in a file."""

    prefix: str
    """Of its settings: `ssl.keystore.`."""
    kind: str
    location: str
    password: str | None = None
    setting: str = ""
    """What names the file, if that is not `<prefix>location`."""

    def __repr__(self) -> str:
        return f"StoreFile({self.place}, {self.kind})"

    @property
    def place(self) -> str:
        """For errors."""
        return f"{self.setting or f'{self.prefix}location'}={self.location}"

    def identity(self, key_password: str | None) -> bytes:
        """Its private key, not encrypted, and the certificates that belong to it, PEM. Raises InvalidValue."""
        return _identity(self._read(), key_password)

    def trusted(self) -> bytes:
        """The certificates that are trusted, PEM. Raises InvalidValue."""
        return _trusted(self._read())

    def marks(self) -> Marks:
        """What tells the file from what it was before; None if it is not there."""
        try:
            found = os.stat(self.location)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def client_settings(self) -> dict[str, str]:
        """What names the same store to a client."""
        named = {f"{self.prefix}type": self.kind.upper(), f"{self.prefix}location": self.location}
        return named if self.password is None else {**named, f"{self.prefix}password": self.password}

    def _read(self) -> TlsStore:
        try:
            with open(self.location, "rb") as stream:
                content = stream.read(FILE_BYTES_MAX + 1)
        except OSError as problem:
            raise InvalidValue(f"{self.place}: {problem.strerror}") from None
        if len(content) > FILE_BYTES_MAX:
            raise InvalidValue(f"{self.place}: longer than {FILE_BYTES_MAX} bytes; is this a keystore?")
        return TlsStore(self.prefix, self.place, self.kind, content, self.password)


class StoreText(NamedTuple):
    """PEM text that stands in a setting."""

    setting: str
    text: str

    def __repr__(self) -> str:
        return f"StoreText({self.setting})"

    def identity(self, key_password: str | None) -> bytes:
        """See `StoreFile`."""
        return _identity(self._read(), key_password)

    def trusted(self) -> bytes:
        """See `StoreFile`."""
        return _trusted(self._read())

    def client_settings(self) -> dict[str, str]:
        """See `StoreFile`."""
        return {self.setting: self.lines}

    @property
    def lines(self) -> str:
        """What a settings file has brought into one line has its ends on lines of their own again."""
        return "".join(
            f"-----BEGIN {kind}-----\n{''.join(body.split())}\n-----END {kind}-----\n"
            for kind, body in _BLOCK.findall(self.text)
        )

    def _read(self) -> TlsStore:
        prefix = self.setting.removesuffix("key").removesuffix("certificates").removesuffix("certificate.chain")
        return TlsStore(prefix, self.setting, PEM, self.lines.encode(), None)


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
