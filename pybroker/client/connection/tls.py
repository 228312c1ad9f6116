"""TLS settings of connections to brokers."""

from __future__ import annotations

import os
import ssl
from contextlib import closing

from pybroker.client.client_errors import ClientConfigError
from pybroker.client.config import ClientConfig
from pybroker.config.memory_file import MemoryFile
from pybroker.config.setting_values import InvalidValue
from pybroker.config.stores import CRL, CrlFile, StoreFile, StoreText


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Return an SSLContext from the `ssl.*` settings. Raises ClientConfigError if a file is unusable."""
    own_context = config["ssl.context"]
    if isinstance(own_context, ssl.SSLContext):
        return own_context
    authority, certificate = config["ssl.ca.location"], config["ssl.certificate.location"]
    keystore = _keystore(config)
    try:
        context = _trusting(config)
        if authority is not None:
            where = {"capath": authority} if os.path.isdir(authority) else {"cafile": authority}
            context.load_verify_locations(**where)
        if (revoked := config[CRL]) is not None:
            _ask_for_revoked(context, CrlFile(revoked))
        if keystore is not None:
            _show(context, keystore)
        elif certificate is not None:
            context.load_cert_chain(certificate, config["ssl.key.location"], config["ssl.key.password"])
    except InvalidValue as problem:
        raise ClientConfigError(str(problem)) from None
    except (OSError, ssl.SSLError) as error:
        raise ClientConfigError(f"cannot use the files of ssl.*.location: {error}") from error
    if not config["ssl.endpoint.identification.algorithm"]:
        context.check_hostname = False
    return context


def _trusting(config: ClientConfig) -> ssl.SSLContext:
    """Return a context that trusts only the truststore's authorities, or the system's if there is no truststore."""
    text, location = config["ssl.truststore.certificates"], config["ssl.truststore.location"]
    if text is not None:
        pem, setting = StoreText("ssl.truststore.certificates", text).trusted(), "ssl.truststore.certificates"
    elif location is not None:
        store = StoreFile(
            "ssl.truststore.", config["ssl.truststore.type"] or "", location, config["ssl.truststore.password"]
        )
        pem, setting = store.trusted(), store.place
    else:
        return ssl.create_default_context()
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise ClientConfigError(f"{setting}: there is no certificate in it (PEM)")
    return ssl.create_default_context(cadata=pem.decode())


def _keystore(config: ClientConfig) -> bytes | None:
    """Return the key and certificates of the keystore as PEM. Raises ClientConfigError if it is unusable."""
    key, chain, location = (
        config["ssl.keystore.key"],
        config["ssl.keystore.certificate.chain"],
        config["ssl.keystore.location"],
    )
    password = config["ssl.key.password"]
    try:
        if key is not None and chain is not None:
            shown = StoreText("ssl.keystore.key", key).identity(password)
            return shown + StoreText("ssl.keystore.certificate.chain", chain).trusted()
        if location is None:
            return None
        kind = config["ssl.keystore.type"] or ""
        return StoreFile("ssl.keystore.", kind, location, config["ssl.keystore.password"]).identity(password)
    except InvalidValue as problem:
        raise ClientConfigError(str(problem)) from None


def _show(context: ssl.SSLContext, pem: bytes) -> None:
    # Python's ssl module reads keys only from files.
    with closing(MemoryFile(pem)) as file:
        context.load_cert_chain(file.path)


def _ask_for_revoked(context: ssl.SSLContext, file: CrlFile) -> None:
    """Check revocation lists: reject certificates of an authority without a current list. Raises InvalidValue if a list
    is unusable.
    """
    # Python's ssl module reads revocation lists only from files. It would also trust certificates in the same file, so
    # write only the lists into the file.
    with closing(MemoryFile(file.lists())) as lists:
        try:
            context.load_verify_locations(cafile=lists.path)
        except ssl.SSLError as problem:
            raise InvalidValue(f"{file.place}: {problem}") from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
