"""TLS towards brokers."""

from __future__ import annotations

import os
import ssl

from pybroker.client.config import ClientConfig
from pybroker.client.errors import ClientConfigError


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """An SSLContext made from the `ssl.*` settings. Raises ClientConfigError for files that cannot be used."""
    given = config["ssl.context"]
    if isinstance(given, ssl.SSLContext):
        return given
    authority, certificate = config["ssl.ca.location"], config["ssl.certificate.location"]
    context = ssl.create_default_context()
    try:
        if authority is not None:
            where = {"capath": authority} if os.path.isdir(authority) else {"cafile": authority}
            context.load_verify_locations(**where)
        if certificate is not None:
            context.load_cert_chain(certificate, config["ssl.key.location"], config["ssl.key.password"])
    except (OSError, ssl.SSLError) as error:
        raise ClientConfigError(f"the files of ssl.*.location cannot be used: {error}") from error
    if not config["ssl.endpoint.identification.algorithm"]:
        context.check_hostname = False
    return context
