"""A self-signed certificate for brokers on this machine, made with the JDK's keytool; valid for two days."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import NamedTuple

from pybroker.testing.maven import java_tool

DAYS = "2"
TIMEOUT_S = 120


class CertificateError(RuntimeError):
    """keytool failed; the text has its output."""


class Certificate(NamedTuple):
    """The certificate's files and the keystore's password."""

    keystore: Path
    """PKCS12, with the key."""
    password: str
    authority: Path
    """PEM; the trusted authority for clients."""

    def settings(self) -> dict[str, str]:
        """Return the settings of a broker that presents the certificate and trusts it."""
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.keystore),
            "ssl.keystore.password": self.password,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Create a certificate for 127.0.0.1 and localhost. Raises CertificateError, NoJavaError."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder / "broker.p12", secrets.token_hex(16), folder / "authority.pem")
        made.keystore.unlink(missing_ok=True)
        _keytool(made, "-genkeypair", "-keyalg", "RSA", "-keysize", "2048", "-dname", "CN=broker", "-validity",
                 DAYS, "-ext", "SAN=ip:127.0.0.1,dns:localhost")  # fmt: skip
        _keytool(made, "-exportcert", "-rfc", "-file", str(made.authority))
        return made


def _keytool(store: Certificate, command: str, *arguments: str) -> None:
    # Pass the password in the environment, because every user of the machine can read command lines.
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
