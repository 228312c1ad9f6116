"""A key set of an identity provider (JWKS, RFC 7517): the keys that may sign tokens."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

Key = RSAKey | ECKey | OKPKey

KEYS_MAX = 1_000

RSA_BITS_MIN = 2048
"""The minimum size of an RSA key (RFC 7518, 3.3)."""

ALGORITHMS: Mapping[str, str] = {
    **{f"{family}{bits}": "RSA" for family in ("RS", "PS") for bits in (256, 384, 512)},
    **{f"ES{bits}": "EC" for bits in (256, 384, 512)},
    "EdDSA": "OKP",
    "Ed25519": "OKP",
}
"""Signature algorithm → key type. Algorithms with a shared secret (HS256 …) are not accepted, because every verifier
could also sign. `none`, which means no signature, is not accepted either."""


class JwksError(Exception):
    """The data is not a usable key set."""


class KeySet:
    """Keys by name. Immutable."""

    def __init__(self, keys: Iterable[Key] = (), left_out: Iterable[str] = ()) -> None:
        self._keys = tuple(keys)
        self.left_out = tuple(left_out)
        """The reasons why keys were skipped."""

    def __len__(self) -> int:
        return len(self._keys)

    def named(self, kid: str | None) -> list[Key]:
        """Return the keys with this name; without a name, all keys."""
        return [key for key in self._keys if kid is None or key.kid == kid]

    @classmethod
    def parse(cls, document: bytes) -> KeySet:
        """Parse a key set. Skip keys of other types or uses. Raise JwksError if the data is not a key set or has no
        usable key.
        """
        try:
            found = msgspec.json.decode(document)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise JwksError("it is not JSON") from None
        rows = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(rows, list):
            raise JwksError('it has no list "keys"')
        if len(rows) > KEYS_MAX:
            raise JwksError(f"it has {len(rows)} keys, more than {KEYS_MAX}")
        keys, left_out = [], []
        for row in rows:
            try:
                keys.append(_key(row))
            except JwksError as problem:
                name = row.get("kid") if isinstance(row, dict) else None
                left_out.append(f"{str(name)[:80]!r}: {problem}")
        if not keys:
            raise JwksError(
                "it has no key that can verify a signature" + "".join(f"; {reason}" for reason in left_out[:3])
            )
        return cls(keys, left_out)


def _key(row: Any) -> Key:
    """Parse one key. Raise JwksError if it is malformed."""
    if not isinstance(row, dict):
        raise JwksError("not an object")
    if row.get("kty") not in set(ALGORITHMS.values()):
        raise JwksError(f"key type {str(row.get('kty'))[:20]!r} is not supported")
    if row.get("use", "sig") != "sig":
        raise JwksError("it is not for signatures")
    if isinstance(row.get("key_ops"), list) and "verify" not in row["key_ops"]:
        raise JwksError("it is not for verifying signatures")
    try:
        with warnings.catch_warnings():
            # The check below skips keys that are too short.
            warnings.simplefilter("ignore", SecurityWarning)
            key = JWKRegistry.import_key(row)
        public = key.public_key  # The library computes the value on access. Access it now, to detect an invalid key.
    except (JoseError, ValueError, TypeError, KeyError, OverflowError) as problem:
        raise JwksError(f"cannot read it ({type(problem).__name__})") from None
    assert isinstance(key, RSAKey | ECKey | OKPKey)
    bits = getattr(public, "key_size", RSA_BITS_MIN) if isinstance(key, RSAKey) else RSA_BITS_MIN
    if bits < RSA_BITS_MIN:
        raise JwksError(f"it has {bits} bits, fewer than {RSA_BITS_MIN}")
    return key
