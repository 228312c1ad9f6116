"""`python -m benches.tls`: the brokers' CPU under TLS, Apache Kafka and pybroker one after the other, with the same
certificate, TLS version and cipher.

    produce 66 KB, produce 0.93 MB   CPU seconds per GB of record values, acks=1
    fetch 1 MiB                      the same for fetched records
    1 x 100 B                        CPU µs per request
    handshake                        CPU ms per handshake, back to back, without resumption

The load is prepared requests from Python on one connection. Its own CPU is not counted, and no broker is saturated.
"""

from __future__ import annotations

import argparse
import random
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from benches import readme
from benches.compare.peers import cpu_seconds, kafka, pybroker
from pybroker.native import Uuid, build_batch, encode_request
from pybroker.protocol import messages
from tests.support.brokers import BrokerProcess
from tests.support.certificates import Authority
from tests.support.keystores import PASSWORD, pkcs12
from tests.support.wire import free_port
from tests.wire.client import WireClient

PRODUCE, FETCH = 9, 12
"""Versions that both brokers support, with topic names."""

CIPHERS = {"TLSv1.3": "TLS_AES_256_GCM_SHA384", "TLSv1.2": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
MIB = 1 << 20
BARS = {"produce 66 KB": 0.5, "produce 0.93 MB": 0.5, "fetch 1 MiB": 0.5, "1 x 100 B": 0.5, "handshake": 1 / 3}
TOPIC = "under-tls"


class Target:
    """A broker with one TLS listener."""

    def __init__(self, name: str, broker: BrokerProcess, port: int, context: ssl.SSLContext) -> None:
        self.name = name
        self.broker = broker
        self.port = port
        self._context = context

    def connect(self) -> WireClient:
        """Return a connection after its handshake."""
        return WireClient(self.port, wrap=lambda plain: self._context.wrap_socket(plain, server_hostname="localhost"))

    def cost(self, what: Callable[[], object]) -> float:
        """Return the broker's CPU seconds during a call."""
        used = cpu_seconds(self.broker.pid)
        what()
        return cpu_seconds(self.broker.pid) - used


def produce(value_bytes: int, values: int) -> tuple[bytes, int]:
    """Return the frame of a Produce request with incompressible records, and their bytes."""
    noise = random.Random(7)
    now = int(time.time() * 1000)
    records = build_batch([(None, noise.randbytes(value_bytes)) for _ in range(values)], now)
    data = [messages.ProduceRequest_PartitionProduceData(index=0, records=records)]
    topic = messages.ProduceRequest_TopicProduceData(name=TOPIC, partition_data=data)
    request = messages.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    return encode_request(request, PRODUCE, 1, "bench"), value_bytes * values


def produced(client: WireClient, frame: bytes, rounds: int, ahead: int = 4) -> None:
    """Send a frame `rounds` times, up to `ahead` frames before their responses."""
    for number in range(rounds + ahead):
        if number < rounds:
            client.send_frame(frame)
        if number >= ahead:
            client.receive_frame()


def fetched(client: WireClient, wanted: int) -> int:
    """Read from the beginning, 1 MiB per request, until `wanted` bytes have arrived; return the actual number."""
    partition = messages.FetchRequest_FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    topic = messages.FetchRequest_FetchTopic(topic=TOPIC, topic_id=Uuid.ZERO, partitions=[partition])
    request = messages.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=MIB, session_epoch=-1, topics=[topic])
    frame = encode_request(request, FETCH, 1, "bench")
    have = 0
    while have < wanted:
        client.send_frame(frame)
        have += len(client.receive_frame())
    return have


def figures(target: Target, volume: int, requests: int, handshakes: int) -> dict[str, float]:
    """Run each case once; `volume` is the bytes of cases that are measured per GB."""
    found: dict[str, float] = {}
    with target.connect() as client:
        create = messages.CreateTopicsRequest_CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        client.call(messages.CreateTopicsRequest(timeout_ms=60_000, topics=[create]), 5)
        for name, value_bytes, values in (("produce 66 KB", 1_000, 66), ("produce 0.93 MB", 1_000, 930)):
            frame, size = produce(value_bytes, values)
            rounds = max(1, volume // size)
            produced(client, frame, min(rounds, 50))
            used = target.cost(lambda frame=frame, rounds=rounds: produced(client, frame, rounds))  # type: ignore[misc]
            found[name] = used / (rounds * size) * 1e9
        fetched(client, volume // 10)
        found["fetch 1 MiB"] = target.cost(lambda: fetched(client, volume)) / volume * 1e9
        frame, _ = produce(100, 1)
        produced(client, frame, requests // 10)
        found["1 x 100 B"] = target.cost(lambda: produced(client, frame, requests, 1)) / requests * 1e6
    shake(target, handshakes // 10 + 1)
    found["handshake"] = target.cost(lambda: shake(target, handshakes)) / handshakes * 1e3
    return found


def shake(target: Target, times: int) -> None:
    """Open and close connections."""
    for _ in range(times):
        target.connect().close()


def peers(folder: Path, version: str, cipher: str) -> list[tuple[str, BrokerProcess, int]]:
    """Return both brokers with the same keystore; Kafka's settings work for both."""
    authority = Authority(folder / "authority")
    store = pkcs12(folder / "store.p12", authority.identity("broker"))
    made: list[tuple[str, BrokerProcess, int]] = []
    tls = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.enabled.protocols": version,
        "ssl.cipher.suites": cipher,
    }
    for name, make in (("kafka", kafka), ("pybroker os", _os), ("pybroker", pybroker)):
        broker, port = make(folder / name.replace(" ", "-"), tls), free_port()
        listeners = f"PLAINTEXT://{broker.bootstrap},TLS://127.0.0.1:{port}"
        names = "PLAINTEXT:PLAINTEXT,TLS:SSL"
        broker.settings = {**broker.settings, "listeners": listeners, "listener.security.protocol.map": names}
        if name == "kafka":
            controller = getattr(broker, "controller_port")  # noqa: B009  (Apache Kafka's process alone has it)
            broker.settings |= {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": f"{names},CONTROLLER:PLAINTEXT",
            }
        made.append((name, broker, port))
    return made


def _os(folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
    return pybroker(folder, {**settings, "log.flush.mode": "os"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cases and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benches.tls", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements per broker, in turn")
    parser.add_argument(
        "--megabytes", type=int, default=1_000, help="megabytes of record values for each case that is measured per GB"
    )
    parser.add_argument("--requests", type=int, default=20_000, help="number of requests of 1 x 100 B")
    parser.add_argument("--handshakes", type=int, default=2_000)
    parser.add_argument("--warm", type=int, default=2, help="warm-up measurements: a JVM compiles first")
    parser.add_argument("--tls", choices=CIPHERS, default="TLSv1.3")
    parser.add_argument("--cipher", default=None, help="cipher suite under Java's name (default: AES-256-GCM)")
    asked = parser.parse_args(arguments)
    cipher = asked.cipher or CIPHERS[asked.tls]
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as name:
        folder = Path(name)
        for peer, broker, port in peers(folder, asked.tls, cipher):
            context = ssl.create_default_context(cafile=str(folder / "authority" / "authority.pem"))
            broker.start()
            try:
                target = Target(peer, broker, port, context)
                taken = [
                    figures(target, asked.megabytes * 1_000_000, asked.requests, asked.handshakes)
                    for _ in range(asked.warm + asked.rounds)
                ]
                found[peer] = taken[asked.warm :]
            finally:
                broker.kill()
    print(table(found, f"{asked.tls}, {cipher}"))


UNITS = {"1 x 100 B": "CPU µs a request", "handshake": "CPU ms each"}


def table(found: Mapping[str, Sequence[Mapping[str, float]]], title: str) -> str:
    """Return a Markdown table: a row per case, medians, and the ratio with its bar."""
    head = "| case | unit | kafka | pybroker os | pybroker | pybroker os / kafka |"
    lines = [f"**{title}**", "", head, "|---" * 6 + "|"]
    for case, bar in BARS.items():
        middle = {peer: median(one[case] for one in taken) for peer, taken in found.items()}
        ratio = middle["pybroker os"] / middle["kafka"]
        verdict = f"{readme.shown(ratio)} (bar ≤ {readme.shown(bar)}: {'met' if ratio <= bar else 'MISSED'})"
        cells = [readme.shown(middle[peer]) for peer in ("kafka", "pybroker os", "pybroker")]
        lines.append(f"| {case} | {UNITS.get(case, 'CPU s a GB')} | {' | '.join(cells)} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
