"""The queue between native code and Python: requests arrive in order with one wake-up for a burst, replies come from
any thread, limits hold, and it can be stopped under load."""

from __future__ import annotations

import select
import threading
import time
from pathlib import Path

import pytest

from pybroker.native import CodecError, NativeBroker, Request, Uuid
from pybroker.protocol import messages as m
from tests.native.harness import (
    WAIT_S,
    Client,
    ControlThread,
    completion_of,
    drain_until,
    listening,
    native,
    order,
    publish,
)

FIND_COORDINATOR, HEARTBEAT, CREATE_TOPICS, METADATA = 10, 12, 19, 3


def requests_of(items: list[object]) -> list[Request]:
    return [item for item in items if isinstance(item, Request)]


def test_a_request_and_its_reply(tmp_path: Path) -> None:
    with native([tmp_path], listen=False) as broker:
        port = listening(broker)
        client = Client(port)
        client.send(m.HeartbeatRequest(group_id="g", generation_id=3, member_id="me"), 4)
        [request] = requests_of(drain_until(broker, bool))
        assert (request.api_key, request.api_version, request.client_id) == (HEARTBEAT, 4, "test")
        assert (request.listener, request.client_host) == ("PLAINTEXT", "127.0.0.1")
        assert request.principal == "User:ANONYMOUS"
        assert isinstance(request.message, m.HeartbeatRequest)
        assert (request.message.group_id, request.message.generation_id) == ("g", 3)
        assert not request.cancelled
        with pytest.raises(CodecError):
            request.reply(m.CreateTopicsResponse())
        request.reply(m.HeartbeatResponse(error_code=27))
        assert client.receive(HEARTBEAT, 4).error_code == 27
        with pytest.raises(RuntimeError, match="answered before"):
            request.reply(m.HeartbeatResponse())
        client.close()


def test_an_unanswered_request_closes_its_connection(tmp_path: Path) -> None:
    with native([tmp_path], listen=False) as broker:
        client = Client(listening(broker))
        client.send(m.HeartbeatRequest(), 4)
        items = drain_until(broker, bool)
        del items
        assert client.is_closed()
        client.close()


def test_a_shutdown_does_not_wait_for_requests_that_nobody_takes(tmp_path: Path) -> None:
    """In an earlier version, a controller's clean stop took half of `shutdown.timeout.ms` if a request came after
    Python had stopped."""
    with native([tmp_path], listen=False) as broker:
        client = Client(listening(broker))
        client.send(m.HeartbeatRequest(), 4)
        assert select.select([broker.control_queue.wake_fd()], [], [], WAIT_S)[0]
        patience_s = 600
        begun = time.monotonic()
        broker.shutdown(patience_s * 1000)
        assert time.monotonic() - begun < patience_s / 4, "it waits for half of that"
        assert client.is_closed()
        client.close()


def test_a_request_knows_when_its_client_has_gone(tmp_path: Path) -> None:
    with native([tmp_path], listen=False) as broker:
        client = Client(listening(broker))
        client.send(m.HeartbeatRequest(), 4)
        [request] = requests_of(drain_until(broker, bool))
        client.close()
        deadline = time.monotonic() + WAIT_S
        while not request.cancelled:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        request.reply(m.HeartbeatResponse())  # the reply reaches no client, and is no error


def test_the_descriptor_is_readable_while_something_waits(tmp_path: Path) -> None:
    with native([tmp_path], listen=False) as broker:
        port = listening(broker)
        fd = broker.control_queue.wake_fd()
        assert select.select([fd], [], [], 0)[0] == []
        clients = [Client(port) for _ in range(5)]
        for client in clients:
            client.send(m.HeartbeatRequest(), 4)
        assert select.select([fd], [], [], WAIT_S)[0] == [fd]
        seen: list[object] = []
        deadline = time.monotonic() + WAIT_S
        while len(seen) < len(clients):
            assert time.monotonic() < deadline
            few = broker.control_queue.drain(2)
            assert len(few) <= 2
            seen += few
        assert select.select([fd], [], [], 0)[0] == []
        for request in requests_of(seen):
            request.reply(m.HeartbeatResponse())
        for client in clients:
            client.receive(HEARTBEAT, 4)
            client.close()


@pytest.mark.checklist("R13")
def test_requests_above_the_limit_wait_in_their_sockets(tmp_path: Path) -> None:
    """queued.max.requests, of which heartbeats may take seven eighths: all are served, never more than that at once."""
    with native([tmp_path], {"queued.max.requests": 8}, listen=False) as broker:
        port = listening(broker)
        clients = [Client(port) for _ in range(20)]
        for client in clients:
            client.send(m.HeartbeatRequest(), 4)
        seen: list[object] = []
        deadline = time.monotonic() + WAIT_S
        while len(seen) < len(clients):
            assert time.monotonic() < deadline
            few = broker.control_queue.drain(256)
            assert len(few) <= 7
            seen += few
        for request in requests_of(seen):
            request.reply(m.HeartbeatResponse())
        for client in clients:
            client.receive(HEARTBEAT, 4)
            client.close()


@pytest.mark.checklist("R3")
def test_requests_pipelined_on_a_connection_are_answered_in_order(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:
        port = listening(broker)
        publish(broker, port, topic_id, "t", 1)

        def answer(request: Request) -> None:
            assert isinstance(request.message, m.HeartbeatRequest)
            request.reply(m.HeartbeatResponse(throttle_time_ms=request.message.generation_id))

        with ControlThread(broker, answer):
            client = Client(port)
            for number in range(50):
                client.send(m.HeartbeatRequest(group_id="g", generation_id=number), 4)
                client.send(m.MetadataRequest(topics=None), 12)
            for number in range(50):
                assert client.receive(HEARTBEAT, 4).throttle_time_ms == number
                assert len(client.receive(METADATA, 12).topics) == 1
            client.close()


def test_a_busy_interpreter_does_not_hold_produces_up(tmp_path: Path) -> None:
    """No Python code runs while produces are answered: the data plane needs neither the loop nor the GIL."""
    from tests.native.test_native_broker import produce

    topic_id = Uuid.random()
    with native([tmp_path], listen=False) as broker:
        port = listening(broker)
        broker.partitions.apply([order(topic_id)])
        publish(broker, port, topic_id, "t", 1)
        parked, client = Client(port), Client(port)
        parked.send(m.HeartbeatRequest(), 4)
        for _ in range(20):
            assert produce(client, topic_id, [b"v"]).responses[0].partition_responses[0].error_code == 0
        parked.close()
        client.close()


def _append_until(broker: NativeBroker, topic_id: Uuid, stop: threading.Event) -> None:
    # Pause each time: the amount to flush at the end must not grow with the time that clients get.
    while not stop.wait(0.001):
        try:
            broker.partitions.append(topic_id, 0, [(b"k", b"v")], 1)
        except RuntimeError:  # it is shut down
            return


def _ask_and_wait(port: int, stop: threading.Event) -> None:
    client = Client(port)
    client.send(m.HeartbeatRequest(), 4)
    stop.wait(WAIT_S)
    client.close()


def test_a_stop_while_requests_wait_and_appends_are_under_way(tmp_path: Path) -> None:
    """Threads append and send requests until the broker is gone: the stop always ends, and no thread crashes."""
    topic_id = Uuid.random()
    for _ in range(2):
        with native([tmp_path], listen=False) as broker:
            port = listening(broker)
            assert broker.partitions.apply([order(topic_id)]) == [0]
            publish(broker, port, topic_id, "t", 1)
            stop = threading.Event()
            threads = [
                *(threading.Thread(target=_append_until, args=(broker, topic_id, stop)) for _ in range(2)),
                *(threading.Thread(target=_ask_and_wait, args=(port, stop)) for _ in range(2)),
            ]
            for thread in threads:
                thread.start()
            token = broker.partitions.append(topic_id, 0, [(b"k", b"v")], 1)
            assert completion_of(broker, token).error_code == 0
            broker.shutdown(16_000)  # half of the timeout is for the waiting clients
            stop.set()
            for thread in threads:
                thread.join()
