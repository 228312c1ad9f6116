"""The clients for programs without asyncio: the same classes and methods, but every call blocks.

    from pybroker.client.blocking import AdminClient, Consumer, Producer

    with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
        producer.send("words", "hello")

One background thread runs the event loop of all clients. Clients are thread-safe; only one thread at a time may use a
Consumer.
"""

from __future__ import annotations

from pybroker.client.blocking.blocking_admin import AdminClient
from pybroker.client.blocking.blocking_consumer import Consumer, ShareConsumer
from pybroker.client.blocking.blocking_producer import Delivery, Producer, TransactionalProducer
from pybroker.client.blocking.event_loop import loop, run

__all__ = ["AdminClient", "Consumer", "Delivery", "Producer", "ShareConsumer", "TransactionalProducer", "loop", "run"]
