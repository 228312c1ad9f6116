"""`kafka.*` options: the native client's settings under Kafka's names. Names are checked here, values by the client."""

from __future__ import annotations

from pybroker.native import BlockingClient, NativeError
from pybroker.spark.errors import OptionError
from pybroker.spark.values import unknown

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


def checked(settings: dict[str, str]) -> dict[str, str]:
    """Settings that have an effect, by Kafka's names. Raises OptionError."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if name in CLIENT:
            found[name] = value.strip()
        elif name == "group.id":
            raise OptionError("kafka.group.id has no meaning here: groupId=… commits the offsets of a stream for tools")
        elif name not in WITHOUT_EFFECT:
            raise OptionError(unknown(KAFKA + name, [KAFKA + each for each in (*CLIENT, *WITHOUT_EFFECT)]))
    try:
        BlockingClient(found)  # which reads its settings, and connects later
    except NativeError as error:
        raise OptionError(str(error)) from None
    return found
