"""Certificates for a test, made by openssl: an authority, and identities that it has signed."""

from __future__ import annotations

import subprocess
from pathlib import Path

DAYS = "2"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
TIMEOUT_S = 120


class Authority:
    """A certificate authority. `certificate`: a PEM file with its certificate, for truststores."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = folder / f"{name}.key"
        self.certificate = folder / f"{name}.pem"
        made = ("-x509", *KEY, "-keyout", str(self._key), "-out", str(self.certificate))
        _openssl("req", *made, "-subj", f"/CN={name}", "-days", DAYS)

    def identity(self, name: str, subject: str = "", days: str = DAYS, version: int = 3) -> Path:
        """Return a PEM file with a private key and its certificate, for 127.0.0.1 and localhost, as keystores contain
        them.

        subject: in openssl's notation; default /CN=name. days: negative values make a certificate that ends before it
        begins. version: of X.509; version 1 has no extensions.
        """
        key, request, certificate = (self._folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text("basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _openssl("req", *KEY, "-keyout", str(key), "-out", str(request), "-subj", subject or f"/CN={name}")
        signed = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", "-days", days)
        extended = ("-extfile", str(extensions)) if version == 3 else ()
        _openssl("x509", "-req", "-in", str(request), *signed, *extended, "-out", str(certificate))
        store = self._folder / f"{name}.pem"
        store.write_text(key.read_text() + certificate.read_text())
        return store

    def expired(self, name: str) -> Path:
        """Return an identity whose certificate was valid for a day in 2020."""
        store = self.identity(name)
        more = f"rand_serial=yes\nnew_certs_dir={self._folder}\npolicy=any\n[any]\ncommonName=supplied\n"
        settings = self._settings("expired", more)
        when = ("-startdate", "200101000000Z", "-enddate", "200102000000Z")
        request, certificate = (str(self._folder / f"{name}.{kind}") for kind in ("csr", "crt"))
        ours = ("-batch", "-notext", "-config", str(settings))
        extensions = ("-extfile", str(self._folder / f"{name}.ext"))
        _openssl("ca", *ours, *when, *extensions, "-in", request, "-out", certificate)
        store.write_text((self._folder / f"{name}.key").read_text() + Path(certificate).read_text())
        return store

    def revoked(self, *names: str, place: Path | None = None, hours: int = 24) -> Path:
        """Return a PEM file with the authority's list of revoked certificates, which contains these identities. hours:
        how long the list is valid; 0: it expires after a second."""
        place = place or self._folder / "revoked.pem"
        number = self._folder / "revoked.number"
        number.write_text("01\n")
        settings = self._settings("revoked", f"crlnumber={number}\n")
        ours = ("-config", str(settings))
        for name in names:
            _openssl("ca", *ours, "-revoke", str(self._folder / f"{name}.crt"))
        until = ("-crlhours", str(hours)) if hours else ("-crlsec", "1")
        fresh = place.with_suffix(".fresh")
        _openssl("ca", *ours, "-gencrl", *until, "-out", str(fresh))
        fresh.rename(place)
        return place

    def _settings(self, name: str, more: str) -> Path:
        """Return a configuration file for `openssl ca`, with an empty database."""
        index, settings = (self._folder / f"{name}.{kind}" for kind in ("index", "cnf"))
        index.write_text("")
        settings.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={index}\ndefault_md=sha256\n"
            f"certificate={self.certificate}\nprivate_key={self._key}\n{more}"
        )
        return settings

    def identity_text(self, name: str) -> bytes:
        """Return the content of the file that `identity` makes."""
        return (self._folder / f"{name}.pem").read_bytes()


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
