"""A certificate for brokers on this machine, made by the JDK's keytool: it vouches for itself, for two days."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import NamedTuple

from pybroker.testing.java import java_tool

DAYS = "2"
TIMEOUT_S = 120


class CertificateError(RuntimeError):
    """keytool did not make one; the text has its words."""


class Certificate(NamedTuple):
    """Files and the password of the first of them."""

    keystore: Path
    """PKCS12, with the key."""
    password: str
    authority: Path
    """PEM: whom clients are to trust."""

    def settings(self) -> dict[str, str]:
        """Of a broker that shows it, and asks others by it."""
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.keystore),
            "ssl.keystore.password": self.password,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """For 127.0.0.1 and localhost. Raises CertificateError, NoJavaError."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder / "broker.p12", secrets.token_hex(16), folder / "authority.pem")
        made.keystore.unlink(missing_ok=True)
        _keytool(made, "-genkeypair", "-keyalg", "RSA", "-keysize", "2048", "-dname", "CN=broker", "-validity",
                 DAYS, "-ext", "SAN=ip:127.0.0.1,dns:localhost")  # fmt: skip
        _keytool(made, "-exportcert", "-rfc", "-file", str(made.authority))
        return made


def _keytool(store: Certificate, command: str, *arguments: str) -> None:
    # The password comes by a variable: command lines are shown to every user of the machine.
    where = ("-alias", "broker", "-keystore", str(store.keystore), "-storetype", "PKCS12", "-storepass:env", "STORE")
    done = subprocess.run(
        [java_tool("keytool"), command, *where, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={"STORE": store.password},
    )
    if done.returncode != 0:
        raise CertificateError(f"keytool {command}: {(done.stdout + done.stderr).strip()}")
