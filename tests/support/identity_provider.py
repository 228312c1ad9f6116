"""An identity provider for a test: keys, tokens signed with them, and the two URLs for brokers and clients."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

ISSUER = "https://issuer.example"
AUDIENCE = "kafka"
CLIENT, SECRET = "etl", "etl's secret"

Key = RSAKey | ECKey


def signed(key: Key | None, header: Mapping[str, Any], claims: Any) -> str:
    """Return a token with exactly this content; without a key it has no signature."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    signing = b".".join(_base64(part) for part in (json.dumps(header).encode(), payload))
    signature = b"" if key is None else jws.JWSRegistry.algorithms[header["alg"]].sign(signing, key)
    return (signing + b"." + _base64(signature)).decode()


def _base64(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


class IdentityProvider:
    """An identity provider. `keys`: the published keys by name; the first one signs."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {"first": RSAKey.generate_key(2048, {"kid": "first"})}
        self.status = 200
        """HTTP status of its responses."""
        self.asked: list[str] = []
        """Paths of the requests."""
        self.forms: list[dict[str, str]] = []
        """Forms of the token requests."""
        self.lifetime_s = 3600
        """Lifetime of tokens, as in their claims."""
        self.told_s = 60
        """Lifetime of tokens, as in the response to clients."""
        self.url = ""

    def jwks(self) -> bytes:
        """Return the public keys."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys.values()]}).encode()

    def token(self, user: str, **claims: Any) -> str:
        """Return a valid token, with these claims changed; a claim that is None is left out."""
        now = int(time.time())
        said = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + self.lifetime_s, "scope": "a b"}
        kid, key = next(iter(self.keys.items()))
        algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
        said = {name: value for name, value in (said | claims).items() if value is not None}
        return signed(key, {"alg": algorithm, "kid": kid, "typ": "JWT"}, said)

    @contextmanager
    def serving(self, certificate: Path | None = None) -> Iterator[IdentityProvider]:
        """Run the provider during the block, at `url`: /jwks, and /token for clients with `CLIENT` and `SECRET`.
        certificate: a PEM file, to use https."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                self.answer(provider.status, provider.jwks())

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                provider.forms.append(dict(urllib.parse.parse_qsl(form)))
                wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                if self.headers["Authorization"] != f"Basic {wanted}":
                    self.answer(401, b'{"error":"invalid_client"}')
                    return
                body = {
                    "access_token": provider.token(CLIENT), "token_type": "Bearer", "expires_in": provider.told_s
                }
                self.answer(provider.status, json.dumps(body).encode())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http{'' if certificate is None else 's'}://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
