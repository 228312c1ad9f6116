"""`kafka.*` options: the native client's settings under Kafka's names. native/client/src/settings/client.rs and
native/spark/src/settings.rs list the known names; this module rejects others."""

from __future__ import annotations

from pybroker.native import SPARK_SETTINGS, BlockingClient, NativeError
from pybroker.spark.option_values import unknown
from pybroker.spark.source_errors import OptionError
from pybroker.spark.token_source import OF_PROVIDER, with_token

KAFKA = "kafka."
# Settings of Java clients that are accepted without an effect. The native client sends a batch when it is full or the
# rows end, fetches partitions one after another, and retries until `delivery.timeout.ms`.
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
    "sasl.login.callback.handler.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "send.buffer.bytes",
)


def checked(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings that have an effect, by Kafka's names. Raises OptionError, TokenError."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if name in SPARK_SETTINGS or name in OF_PROVIDER:
            found[name] = value
        elif name == "group.id":
            raise OptionError(
                "kafka.group.id is not supported; use groupId=… to commit the offsets of a stream for other tools"
            )
        elif name not in WITHOUT_EFFECT:
            known = (*SPARK_SETTINGS, *OF_PROVIDER, *WITHOUT_EFFECT)
            raise OptionError(unknown(KAFKA + name, [KAFKA + each for each in known]))
    try:
        BlockingClient(with_token(found))  # The constructor checks the settings, but does not connect yet.
    except NativeError as error:
        raise OptionError(str(error)) from None
    return found
