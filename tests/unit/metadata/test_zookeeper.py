"""Additions of ZooKeeper to the contract of `MetadataStore`: sessions, broken connections, credentials; real servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from pybroker.broker.metadata.metadata_store import (
    MULTI_BYTES_MAX,
    Create,
    MultiError,
    NodeExistsError,
    RolledBackError,
    SessionState,
    StoreError,
    UnavailableError,
    UnknownOutcomeError,
    ValueTooLargeError,
    WatchEvent,
    WatchKind,
)
from pybroker.broker.metadata.zookeeper_store import OPERATIONS_A_TURN_MAX, Tls, ZooKeeperSettings, ZooKeeperStore
from pybroker.errors import FatalError, StartError
from tests.support.certificates import Authority
from tests.support.zookeeper import Ensemble, ZooKeeperServer, zookeeper
from tests.unit.control_plane import counted_turns

PATIENCE_S = 90.0
SESSION_MS = 30_000
"""Longer than a machine may pause. Tests in which a session ends set a shorter timeout."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with zookeeper(tmp_path) as running:
        yield running


def settings(server: ZooKeeperServer, session_ms: int = SESSION_MS) -> ZooKeeperSettings:
    return ZooKeeperSettings(f"{server.address}/tests", session_ms, int(PATIENCE_S * 1000))


class States:
    """Session states that the store reports, to wait for."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self._queue: asyncio.Queue[SessionState] = asyncio.Queue()
        store.on_session(self._queue.put_nowait)

    async def until(self, state: SessionState) -> list[SessionState]:
        """Return all states up to `state`."""
        seen: list[SessionState] = []
        while not seen or seen[-1] is not state:
            seen.append(await asyncio.wait_for(self._queue.get(), PATIENCE_S))
        return seen


async def off_loop(function: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, function)


async def test_a_session_outlives_a_server_that_is_away_for_a_moment(server: ZooKeeperServer) -> None:
    # The server starts counting the session anew when it is back; until then a busy machine may be slow.
    store = await ZooKeeperStore.open(settings(server, 60_000))
    states, events = States(store), asyncio.Queue[WatchEvent]()
    await store.create("/mine", ephemeral=True)
    session = store.session_id
    await store.get("/mine", events.put_nowait)
    await off_loop(server.kill)
    assert await states.until(SessionState.SUSPENDED) == [SessionState.SUSPENDED]
    assert await asyncio.wait_for(events.get(), PATIENCE_S) == WatchEvent(WatchKind.SESSION, "/mine")
    reading = asyncio.create_task(store.get("/mine"))
    await off_loop(server.start)
    assert await states.until(SessionState.RECONNECTED) == [SessionState.RECONNECTED]
    assert (await asyncio.wait_for(reading, PATIENCE_S)).ephemeral_owner == session == store.session_id
    await store.close()


async def test_a_server_that_never_answers_a_connection_does_not_cost_the_session(server: ZooKeeperServer) -> None:
    # A starting server may accept the request for a connection and never answer it.
    connections: list[asyncio.StreamWriter] = []

    async def door(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        if len(connections) == 2:
            await reader.read()
            return
        behind, front = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(_carry(reader, front), _carry(behind, writer))

    through = await asyncio.start_server(door, "127.0.0.1", 0)
    address = "{}:{}".format(*through.sockets[0].getsockname())
    store = await ZooKeeperStore.open(ZooKeeperSettings(f"{address}/tests", SESSION_MS, int(PATIENCE_S * 1000)))
    states, session = States(store), store.session_id
    await store.create("/mine", ephemeral=True)
    connections[0].close()
    assert await states.until(SessionState.RECONNECTED) == [SessionState.SUSPENDED, SessionState.RECONNECTED]
    assert len(connections) == 3
    assert (await store.get("/mine")).ephemeral_owner == session == store.session_id
    await store.close()
    through.close()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
    target.close()


async def test_an_expired_session_is_lost_with_its_nodes_and_a_new_one_follows(server: ZooKeeperServer) -> None:
    store = await ZooKeeperStore.open(settings(server))
    states, events = States(store), asyncio.Queue[WatchEvent]()
    await store.create("/mine", ephemeral=True)
    await store.children("/", events.put_nowait)
    session = store.session_id
    await off_loop(lambda: expire(store))
    assert (await states.until(SessionState.LOST))[-1] is SessionState.LOST
    assert await states.until(SessionState.CONNECTED) == [SessionState.CONNECTED]
    assert (await asyncio.wait_for(events.get(), PATIENCE_S)).kind is WatchKind.SESSION
    assert store.session_id not in (0, session)
    assert await store.exists("/mine") is None
    await store.close()


def expire(store: ZooKeeperStore) -> None:
    """End the session of a store as an expiry does: another client takes it over and closes it."""
    client, session = store._client, store.session_id
    hosts = ",".join(f"{host}:{port}" for host, port in client.hosts)
    give_up = time.monotonic() + PATIENCE_S
    while store.session_id == session and time.monotonic() < give_up:
        thief = KazooClient(hosts=hosts, client_id=client.client_id)
        # The first client reconnects to the session: the session may be lost again before it is closed.
        with contextlib.suppress(KazooTimeoutError):
            thief.start(PATIENCE_S)
        thief.stop()
        time.sleep(0.2)
    thief.close()


async def test_a_write_whose_answer_never_came_may_have_been_done(server: ZooKeeperServer) -> None:
    store = await ZooKeeperStore.open(settings(server, 60_000))
    server.pause()
    writing = asyncio.create_task(store.create("/a"))
    await asyncio.sleep(0)
    await off_loop(server.kill)
    with pytest.raises(UnknownOutcomeError, match="/a"):
        await asyncio.wait_for(writing, PATIENCE_S)
    await off_loop(server.start)
    # A read shows whether the write succeeded; here the server had not received it. A server that has just started may
    # accept a connection and not answer on it for a whole session timeout.
    async with asyncio.timeout(3 * PATIENCE_S):
        while True:
            try:
                there = await store.exists("/a")
                break
            except UnavailableError:
                continue
    try:
        await store.create("/a")
    except NodeExistsError:
        assert there is not None
    await store.close()


async def test_without_a_server_reads_and_writes_end_with_unavailable(server: ZooKeeperServer) -> None:
    store = await ZooKeeperStore.open(settings(server, 2_000))
    await store.create("/a")
    states = States(store)
    await off_loop(server.kill)
    await states.until(SessionState.SUSPENDED)
    for call in (store.get("/a"), store.create("/b"), store.sync(), store.subtree("/")):
        with pytest.raises(UnavailableError, match=r"zookeeper\.connect="):
            await asyncio.wait_for(call, PATIENCE_S)
    await store.close()


async def test_a_start_waits_longer_than_a_session_lasts(server: ZooKeeperServer) -> None:
    """A broker that starts while ZooKeeper is down waits until ZooKeeper is back: otherwise it would have to be started
    again."""
    store = await ZooKeeperStore.open(settings(server, 2_000))
    store.starting(True)
    await store.create("/a")
    states = States(store)
    await off_loop(server.kill)
    await states.until(SessionState.SUSPENDED)
    reading = asyncio.create_task(store.get("/a"))
    done, _ = await asyncio.wait([reading], timeout=4.0)
    assert not done
    await off_loop(server.start)
    await asyncio.wait_for(reading, PATIENCE_S)
    store.starting(False)
    states = States(store)
    await off_loop(server.kill)
    await states.until(SessionState.SUSPENDED)
    with pytest.raises(UnavailableError, match="for 2 s"):
        await asyncio.wait_for(store.get("/a"), PATIENCE_S)
    await store.close()


async def test_an_ensemble_without_one_server_goes_on(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, 3)
    await off_loop(ensemble.start)
    try:
        store = await ZooKeeperStore.open(ZooKeeperSettings(ensemble.connect, 30_000, int(PATIENCE_S * 1000)))
        await store.create("/mine", b"0", ephemeral=True)
        session, version = store.session_id, 0
        for server in ensemble.servers:
            await off_loop(server.kill)

            async def write() -> int:
                while True:
                    try:
                        return await store.set("/mine", b"again")
                    except (UnknownOutcomeError, UnavailableError):
                        continue

            after = await asyncio.wait_for(write(), PATIENCE_S)
            assert after > version
            version = after
            await off_loop(server.start)
        await store.sync()
        assert (await store.get("/mine")).ephemeral_owner == session
        await store.close()
    finally:
        await off_loop(ensemble.stop)


async def test_a_multi_that_does_not_fit_is_refused_before_it_is_sent(server: ZooKeeperServer) -> None:
    store = await ZooKeeperStore.open(settings(server))
    states = States(store)
    operations = [Create("/a", bytes(MULTI_BYTES_MAX // 2)), Create("/b", bytes(MULTI_BYTES_MAX // 2)), Create("/c")]
    with pytest.raises(MultiError) as failed:
        await store.multi(operations)
    assert failed.value.index == 1
    assert isinstance(failed.value.cause, ValueTooLargeError)
    assert isinstance(failed.value.results[0], RolledBackError)
    # The server accepts every value within the limit.
    await store.multi([Create("/a", bytes(MULTI_BYTES_MAX - 4 * 64 - 16)), Create("/b"), Create("/c")])
    assert await store.children("/") == ["a", "b", "c"]
    assert states._queue.empty()
    await store.close()


async def test_a_large_multi_is_made_in_turns_and_nothing_overtakes_it(server: ZooKeeperServer) -> None:
    store = await ZooKeeperStore.open(settings(server))
    operations = [Create("/made"), *(Create(f"/made/{number}") for number in range(3_000))]
    sent: list[int] = []
    begin = store._begin
    async with counted_turns() as turns:

        def noted(*arguments: Any) -> asyncio.Future[Any]:
            sent.append(turns())
            return begin(*arguments)

        store._begin = noted  # type: ignore[method-assign, assignment]
        before = turns()
        _, version = await asyncio.gather(store.multi(operations), store.set("/made/2999", b"later"))
    assert sent[0] - before >= len(operations) // OPERATIONS_A_TURN_MAX - 1
    assert version == 1
    await store.close()


async def test_nodes_of_a_digest_user_can_be_changed_by_him_only(server: ZooKeeperServer) -> None:
    base = settings(server)
    mine = await ZooKeeperStore.open(base._replace(digest="kate:secret", set_acl=True))
    await mine.create("/a", b"1")
    other = await ZooKeeperStore.open(base._replace(digest="kate:wrong"))
    for refused in (other.set("/a", b"2"), other.delete("/a"), other.get("/a")):
        with pytest.raises(StoreError, match=r"names another user than zookeeper\.digest"):
            await refused
    assert (await mine.get("/a")).data == b"1"
    again = await ZooKeeperStore.open(base._replace(digest="kate:secret", set_acl=True))
    assert await again.set("/a", b"2") == 1
    for store in (mine, other, again):
        await store.close()


async def test_a_start_without_a_server_names_the_setting(server: ZooKeeperServer) -> None:
    server.kill()
    with pytest.raises(StartError, match=r"zookeeper\.connect=127\.0\.0\.1.*zookeeper\.connection\.timeout\.ms=300"):
        await ZooKeeperStore.open(settings(server)._replace(connection_timeout_ms=300))


async def test_a_watcher_that_fails_stops_the_broker(server: ZooKeeperServer) -> None:
    problems: asyncio.Queue[FatalError] = asyncio.Queue()
    store = await ZooKeeperStore.open(settings(server), problems.put_nowait)

    def broken(event: WatchEvent) -> None:
        raise ValueError("half blind")

    await store.exists("/a", broken)
    await store.create("/a")
    assert "half blind" in str(await asyncio.wait_for(problems.get(), PATIENCE_S))
    await store.close()


async def test_results_and_watches_come_in_the_order_of_the_server(server: ZooKeeperServer) -> None:
    store = await ZooKeeperStore.open(settings(server))
    await store.create("/a")
    order: list[str] = []

    async def change(number: int, call: Callable[[], Awaitable[object]]) -> None:
        await call()
        order.append(f"answer {number}")

    for number in range(200):
        await store.get("/a", lambda event, number=number: order.append(f"watch {number}"))  # type: ignore[misc]
        await change(number, lambda: store.set("/a", b"x"))
    assert order == [f"{what} {number}" for number in range(200) for what in ("watch", "answer")]
    await store.close()


async def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine = authority.identity("broker")
    server = ZooKeeperServer(tmp_path / "zookeeper", tls=(authority.identity("zookeeper"), authority.certificate))
    await off_loop(server.start)
    try:
        tls = Tls(str(authority.certificate), str(mine), None, verify_hostname=True)
        there = ZooKeeperSettings(server.secure_address, SESSION_MS, int(PATIENCE_S * 1000), tls=tls)
        store = await ZooKeeperStore.open(there)
        await store.create("/a", b"under TLS")
        assert (await store.get("/a")).data == b"under TLS"
        await store.close()
        for wrong in (tls._replace(truststore=None), tls._replace(keystore=None)):
            with pytest.raises(StartError, match=r"zookeeper\.connect"):
                await ZooKeeperStore.open(there._replace(tls=wrong, connection_timeout_ms=1_000))
    finally:
        server.kill()
