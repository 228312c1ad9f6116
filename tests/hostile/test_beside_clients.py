"""Bad input gets one clear response, and working clients lose nothing."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import uuid
from collections.abc import Iterator

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.hostile.attack import attack
from tests.hostile.beside import WorkingClients
from tests.support.brokers import BrokerProcess
from tests.support.kinds import KINDS
from tests.wire.client import WireClient

ANSWER_S = 120.0
API_VERSIONS = 18


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for this file: its log is read as a whole, and bad input must not affect other tests."""
    started = KINDS[request.config.getoption("--broker")](tmp_path_factory.mktemp("beside"))
    started.start()
    yield started
    started.end()


@pytest.fixture
def clients(broker: BrokerProcess) -> Iterator[WorkingClients]:
    with WorkingClients(broker) as working:
        yield working
    log = broker.console.read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    assert "panicked" not in log


def closed_without_an_answer(broker: BrokerProcess, sent: bytes) -> None:
    """Check that the broker closes a connection on which the client has sent `sent`; the client does not have to wait
    for a timeout."""
    assert said_before_the_end(broker, sent) == b""


def said_before_the_end(broker: BrokerProcess, sent: bytes) -> bytes:
    """Return all bytes that the broker sends on a connection after `sent`, until it closes it."""
    said = b""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=ANSWER_S) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(1024):
                said += more
    return said


def produce(client: WireClient, topic: str, records: bytes) -> m.ProduceResponse_PartitionProduceResponse:
    """Produce by name with acks=all; return the response for partition 0."""
    answer = client.call(
        m.ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                m.ProduceRequest_TopicProduceData(
                    name=topic, partition_data=[m.ProduceRequest_PartitionProduceData(index=0, records=records)]
                )
            ],
        ),
        9,
    )
    partition: m.ProduceResponse_PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return partition


def test_wrong_crc(broker: BrokerProcess, clients: WorkingClients) -> None:
    """A wrong bit anywhere in the CRC, or in the bytes that it covers, is refused, also in the partition to which the
    working clients write.

    The error is CORRUPT_MESSAGE, after which a producer sends the batch again; after INVALID_RECORD it would give up.
    """
    batch = native.build_batch([(b"key", b"never to be seen")], 1_700_000_000_000)
    with WireClient(broker.port) as client:
        for at in range(17, len(batch)):
            wrong = bytearray(batch)
            wrong[at] ^= 1 << at % 8
            assert produce(client, clients.topic, bytes(wrong)).error_code == ErrorCode.CORRUPT_MESSAGE
        clients.go_on()


def test_a_batch_that_is_cut_off(broker: BrokerProcess, clients: WorkingClients) -> None:
    batch = native.build_batch([(b"key", b"never to be seen")], 1_700_000_000_000)
    refused = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
    with WireClient(broker.port) as client:
        for length in range(1, len(batch)):
            assert produce(client, clients.topic, batch[:length]).error_code in refused, length


def test_lengths_in_a_batch_that_lie(broker: BrokerProcess, clients: WorkingClients) -> None:
    """Batch length and record count: every wrong value is refused, without allocating the claimed size."""
    batch = native.build_batch([(b"key", b"never to be seen")], 1_700_000_000_000)
    with WireClient(broker.port) as client:
        for at in (8, 57):
            for lie in (-1, -(2**31), 0, 2**31 - 1, 2**30):
                wrong = batch[:at] + struct.pack(">i", lie) + batch[at + 4 :]
                answer = produce(client, clients.topic, wrong)
                assert answer.error_code in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}, (at, lie)


def test_versions_and_keys_that_are_not_served(broker: BrokerProcess, clients: WorkingClients) -> None:
    """The layout of the response is unknown, so there is none, as in Kafka; only ApiVersions has one (KIP-511)."""
    table = [(row.key, row.max_version) for row in native.api_table() if row.served]
    asked = [(key, version) for key, highest in table for version in (highest + 1, 32_767, -1)]
    for key, version in [*asked, (-1, 0), (9_999, 0), (32_767, 3), (-32_768, -1)]:
        body = struct.pack(">hhih", key, version, 7, 1) + b"x\x00"
        frame = struct.pack(">i", len(body)) + body
        if key != API_VERSIONS:
            closed_without_an_answer(broker, frame)
            continue
        with socket.create_connection(("127.0.0.1", broker.port), timeout=ANSWER_S) as connection:
            connection.sendall(frame)
            answer = connection.makefile("rb").read(4 + 4 + 2)
            assert struct.unpack(">ih", answer[4:]) == (7, ErrorCode.UNSUPPORTED_VERSION)
    clients.go_on()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../../etc/passwd", "a b", "x" * 250, "\u00e9", "a\x00b", "a\nb"]
)
def test_invalid_topic_names(broker: BrokerProcess, clients: WorkingClients, name: str) -> None:
    with WireClient(broker.port) as client:
        made = client.call(
            m.CreateTopicsRequest(
                topics=[m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
                timeout_ms=30_000,
            ),
            7,
        )
        assert made.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert made.topics[0].error_message
        asked = client.call(
            m.MetadataRequest(
                topics=[m.MetadataRequest_MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
            ),
            12,
        )
        assert asked.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("retention.ms", "soon"),
        ("segment.bytes", "1"),
        ("segment.bytes", "9" * 400),
        ("cleanup.policy", "shred"),
        ("compression.type", ""),
        ("min.cleanable.dirty.ratio", "nan"),
        ("no.such.setting", "1"),
    ],
)
def test_invalid_values_of_settings(broker: BrokerProcess, clients: WorkingClients, setting: str, value: str) -> None:
    """Neither a new topic nor an existing one accepts them."""
    with WireClient(broker.port) as client:
        made = client.call(
            m.CreateTopicsRequest(
                topics=[
                    m.CreateTopicsRequest_CreatableTopic(
                        name=f"invalid-{uuid.uuid4().hex[:8]}",
                        num_partitions=1,
                        replication_factor=1,
                        configs=[m.CreateTopicsRequest_CreatableTopicConfig(name=setting, value=value)],
                    )
                ],
                timeout_ms=30_000,
            ),
            7,
        )
        altered = client.call(
            m.IncrementalAlterConfigsRequest(
                resources=[
                    m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                        resource_type=2,
                        resource_name=clients.topic,
                        configs=[
                            m.IncrementalAlterConfigsRequest_AlterableConfig(
                                name=setting, config_operation=0, value=value
                            )
                        ],
                    )
                ]
            ),
            1,
        )
    for answer in (made.topics[0], altered.responses[0]):
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert setting in answer.error_message


def test_tls_on_the_plaintext_port(broker: BrokerProcess, clients: WorkingClients) -> None:
    handshake_failure = bytes.fromhex("15 0303 0002 02 28")
    for _ in range(20):
        # A reset may arrive before the alert.
        said = said_before_the_end(broker, bytes.fromhex("16030100c8010000c40303") + bytes(200))
        assert said in (handshake_failure, b"")
    clients.go_on()


def test_hostile_lengths_of_frames(broker: BrokerProcess, clients: WorkingClients) -> None:
    for length in (-1, -(2**31), 2**31 - 1, 104_857_601, 0, 1, 7):
        closed_without_an_answer(broker, struct.pack(">i", length) + bytes(64))
    clients.go_on()


def test_hostile_lengths_of_fields(broker: BrokerProcess, clients: WorkingClients) -> None:
    """Arrays and strings claim more bytes than the frame has: the connection is closed, as in Kafka."""
    metadata, find_coordinator = 3, 10
    for key, version, body in [
        (metadata, 4, struct.pack(">i", 2**31 - 1)),
        (metadata, 4, struct.pack(">ih", 1, 32_767)),
        (metadata, 12, b"\x00\xff\xff\xff\xff\x0f"),
        (metadata, 12, b"\x00" + b"\xff" * 10),
        (find_coordinator, 2, struct.pack(">h", -2)),
    ]:
        request = struct.pack(">hhih", key, version, 7, 1) + b"x" + body
        closed_without_an_answer(broker, struct.pack(">i", len(request)) + request)
    clients.go_on()


def test_frames_that_never_end(broker: BrokerProcess, clients: WorkingClients) -> None:
    """Half a frame on many connections delays no client, and is dropped with its connection."""
    with contextlib.ExitStack() as open_connections:
        for _ in range(50):
            connection = socket.create_connection(("127.0.0.1", broker.port), timeout=ANSWER_S)
            open_connections.enter_context(connection)
            connection.sendall(struct.pack(">i", 50_000_000) + bytes(10_000))
        clients.go_on()


def test_garbage(broker: BrokerProcess, clients: WorkingClients) -> None:
    """The input is random bytes, and thousands of corrupted requests, none of which names the working clients'
    topic."""
    chance = random.Random(3)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=ANSWER_S) as connection:
            # The first bit is set: the broker must not wait for such a length.
            noise = bytes([chance.randrange(128, 256)]) + chance.randbytes(1_000)
            with contextlib.suppress(ConnectionError):
                connection.sendall(noise)
                assert connection.recv(1024) == b""
    attack(broker.port, 1_000, 3)
    clients.go_on()
