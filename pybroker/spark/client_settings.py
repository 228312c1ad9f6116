"""`kafka.*` options: settings of the native client under Kafka's names, checked before it sees them."""

from __future__ import annotations

import difflib
import re

from pybroker.spark.errors import OptionError

KAFKA = "kafka."
# What native/spark/src/settings.rs reads.
CLIENT = (
    "acks",
    "batch.size",
    "bootstrap.servers",
    "buffer.memory",
    "check.crcs",
    "client.id",
    "compression.gzip.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "fetch.max.wait.ms",
    "isolation.level",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
# Settings of the Java clients that mean nothing here but do no harm: batches are sent when they are full or the rows
# end, a partition is fetched at a time, and retries go on until `delivery.timeout.ms`.
WITHOUT_EFFECT = (
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "linger.ms",
    "max.block.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "send.buffer.bytes",
)
INT, LONG = 2**31 - 1, 2**63 - 1
NUMBERS = {
    "batch.size": (0, INT),
    "buffer.memory": (0, LONG),
    "compression.gzip.level": (-1, 9),
    "compression.zstd.level": (-131072, 22),
    "delivery.timeout.ms": (1, INT),
    "fetch.max.wait.ms": (0, INT),
    "max.in.flight.requests.per.connection": (1, INT),
    "max.partition.fetch.bytes": (0, INT),
    "request.timeout.ms": (1, INT),
    "retry.backoff.ms": (0, INT),
    "socket.connection.setup.timeout.ms": (1, INT),
}
FLAGS = ("check.crcs", "enable.idempotence")


def number(name: str, text: str, least: int, most: int) -> int:
    """A whole number in digits. Raises OptionError."""
    if re.fullmatch("-?[0-9]{1,19}", text) and least <= int(text) <= most:
        return int(text)
    raise OptionError(f"{name}={text}: a whole number from {least} to {most} is needed")


def flag(name: str, text: str) -> bool:
    """`true` or `false`, in any case. Raises OptionError."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name}={text}: true or false is needed")
    return text.lower() == "true"


def checked(settings: dict[str, str]) -> dict[str, str]:
    """Settings that have an effect, by Kafka's names. Raises OptionError."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        text = value.strip()
        if name in NUMBERS:
            found[name] = str(number(KAFKA + name, text, *NUMBERS[name]))
        elif name in FLAGS:
            found[name] = str(flag(KAFKA + name, text)).lower()
        elif name in CLIENT:
            found[name] = text
        elif name == "group.id":
            raise OptionError("kafka.group.id has no meaning here: groupId=… commits the offsets of a stream for tools")
        elif name not in WITHOUT_EFFECT:
            raise OptionError(unknown(KAFKA + name, [KAFKA + each for each in (*CLIENT, *WITHOUT_EFFECT)]))
    servers = found.get("bootstrap.servers", "")
    if not servers:
        raise OptionError("the option kafka.bootstrap.servers is missing")
    for address in filter(None, (each.strip() for each in servers.split(","))):
        host, _, port = address.rpartition(":")
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise OptionError(f"kafka.bootstrap.servers={servers}: {address} is not host:port")
    return found


def unknown(name: str, known: list[str]) -> str:
    """The sentence for a name that does not exist, with the nearest one that does."""
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f"there is no option {name}" + (f"; did you mean {lower[near[0]]}?" if near else "")
