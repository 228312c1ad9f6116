"""Keystores and truststores, made by Java's keytool and by OpenSSL."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pybroker.testing.maven import java_tool

PASSWORD = "store-secret"
TIMEOUT_S = 120
LEGACY = "-J-Dkeystore.pkcs12.legacy"


def keytool(*arguments: str, password: str = PASSWORD) -> None:
    """Run keytool. `password`: of the store."""
    run(java_tool("keytool"), *arguments, "-storepass", password)


def run(*command: str) -> None:
    """Run a command; raise with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def pkcs12(place: Path, identity: Path, authority: Path | None = None, *, legacy: bool = False) -> Path:
    """Make a PKCS12 store by OpenSSL, with the key and certificate of `identity` and the authority's certificate."""
    more = ["-certfile", str(authority)] if authority else []
    old = ["-legacy"] if legacy else []
    run("openssl", "pkcs12", "-export", *old, *more, "-in", str(identity), "-out", str(place), "-name", "broker",
        "-passout", f"pass:{PASSWORD}")  # fmt: skip
    return place


def converted(place: Path, store: Path, kind: str, *options: str, key_password: str = PASSWORD) -> Path:
    """Convert a PKCS12 store to another kind, by keytool."""
    keytool("-importkeystore", "-noprompt", "-srckeystore", str(store), "-srcstorepass", PASSWORD,
            "-destkeystore", str(place), "-deststoretype", kind, "-destkeypass", key_password,
            "-srcalias", "broker", *options)  # fmt: skip
    return place


def truststore(place: Path, authority: Path, kind: str, *options: str) -> Path:
    """Make a truststore with one certificate, by keytool."""
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(authority), "-keystore", str(place),
            "-storetype", kind, *options)  # fmt: skip
    return place
