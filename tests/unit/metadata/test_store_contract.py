"""The contract of `MetadataStore`, written once and run on both implementations: SQLite, and a real ZooKeeper."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from pybroker.broker.metadata.metadata_store import (
    VALUE_BYTES_MAX,
    BadVersionError,
    Check,
    Create,
    Delete,
    InvalidPathError,
    MetadataStore,
    MultiError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    OperationResult,
    RolledBackError,
    SessionState,
    Set,
    StoreClosedError,
    ValueTooLargeError,
    WatchEvent,
    WatchKind,
    ensure_path,
    ensure_paths,
)
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.metadata.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from tests.support.zookeeper import ZooKeeperServer, zookeeper

Opener = Callable[[], Awaitable[MetadataStore]]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture(params=["embedded", "zookeeper"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Yield a function that opens a session on the same store; call it again only after the first session is closed."""

    async def embedded() -> MetadataStore:
        return await EmbeddedStore.open(tmp_path)

    if request.param == "embedded":
        return embedded
    connect = f"{request.getfixturevalue('server').address}/contract/{next(_numbers)}"

    async def in_zookeeper() -> MetadataStore:
        return await ZooKeeperStore.open(ZooKeeperSettings(connect, 6000, 60_000))

    return in_zookeeper


@pytest_asyncio.fixture
async def store(opener: Opener) -> AsyncIterator[MetadataStore]:
    opened = await opener()
    yield opened
    await opened.close()


async def test_create_get_set_delete(store: MetadataStore) -> None:
    assert await store.create("/a", b"one") == "/a"
    node = await store.get("/a")
    assert (node.data, node.version, node.ephemeral_owner) == (b"one", 0, 0)
    assert node.created_zxid == node.changed_zxid > 0
    assert node.created_ms > 1_600_000_000_000
    assert await store.set("/a", b"two") == 1
    assert await store.set("/a", b"three", version=1) == 2
    changed = await store.get("/a")
    assert (changed.data, changed.version, changed.created_zxid) == (b"three", 2, node.created_zxid)
    assert changed.changed_zxid > node.changed_zxid
    await store.delete("/a", version=2)
    assert await store.exists("/a") is None


async def test_refusals(store: MetadataStore) -> None:
    await store.create("/a")
    with pytest.raises(NodeExistsError):
        await store.create("/a")
    with pytest.raises(NoNodeError):
        await store.create("/none/child")
    with pytest.raises(NoNodeError):
        await store.get("/none")
    with pytest.raises(NoNodeError):
        await store.set("/none", b"")
    with pytest.raises(NoNodeError):
        await store.delete("/none")
    with pytest.raises(NoNodeError):
        await store.children("/none")
    with pytest.raises(BadVersionError):
        await store.set("/a", b"", version=7)
    with pytest.raises(BadVersionError):
        await store.delete("/a", version=7)
    await store.create("/a/b")
    with pytest.raises(NotEmptyError):
        await store.delete("/a")


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/./a", "/a\x00b"])
async def test_bad_paths(store: MetadataStore, path: str) -> None:
    with pytest.raises(InvalidPathError):
        await store.create(path)
    with pytest.raises(InvalidPathError):
        await store.get(path)


async def test_values_up_to_a_mebibyte(store: MetadataStore) -> None:
    await store.create("/a", bytes(VALUE_BYTES_MAX - 64))
    with pytest.raises(ValueTooLargeError):
        await store.create("/b", bytes(VALUE_BYTES_MAX + 1))
    with pytest.raises(ValueTooLargeError):
        await store.set("/a", bytes(VALUE_BYTES_MAX + 1))
    assert await store.exists("/b") is None


async def test_children_are_names_of_one_level(store: MetadataStore) -> None:
    for path in ("/t", "/t/b", "/t/a", "/t/a/deep", "/t/a-b", "/t/ä", "/tt"):
        await store.create(path)
    assert await store.children("/t") == ["a", "a-b", "b", "ä"]
    assert await store.children("/t/a/deep") == []
    assert {"t", "tt"} <= set(await store.children("/"))


async def test_subtree_is_everything_below(store: MetadataStore) -> None:
    for path in ("/t", "/t/a", "/t/a/x", "/t/a/x/y", "/t/a-b", "/t/a0", "/t0", "/t-z"):
        await store.create(path, path.encode())
    nodes = await store.subtree("/t")
    assert set(nodes) == {"/t/a", "/t/a/x", "/t/a/x/y", "/t/a-b", "/t/a0"}
    assert nodes["/t/a/x"].data == b"/t/a/x"
    seen: set[str] = {"/t"}
    for path in nodes:
        assert path.rsplit("/", 1)[0] in seen
        seen.add(path)
    assert await store.subtree("/none") == {}


async def test_sequential_names_go_up(store: MetadataStore) -> None:
    await store.create("/q")
    first = await store.create("/q/n_", sequential=True)
    second = await store.create("/q/n_", sequential=True)
    await store.delete(first)
    third = await store.create("/q/n_", sequential=True)
    assert first < second < third
    assert len(first) == len("/q/n_") + 10
    assert first.removeprefix("/q/n_").isdigit()


async def test_ephemerals_end_with_their_session(opener: Opener) -> None:
    store = await opener()
    await store.create("/ids")
    await store.create("/ids/0", b"me", ephemeral=True)
    assert (await store.get("/ids/0")).ephemeral_owner == store.session_id != 0
    with pytest.raises(NoChildrenForEphemeralsError):
        await store.create("/ids/0/child")
    first_session = store.session_id
    await store.close()
    store = await opener()
    assert store.session_id != first_session
    assert await store.children("/ids") == []
    await store.close()


async def test_persistent_nodes_stay(opener: Opener) -> None:
    store = await opener()
    await store.create("/a", b"1")
    await store.set("/a", b"2")
    zxid = (await store.get("/a")).changed_zxid
    await store.close()
    store = await opener()
    node = await store.get("/a")
    assert (node.data, node.version, node.changed_zxid) == (b"2", 1, zxid)
    await store.set("/a", b"3")
    assert (await store.get("/a")).changed_zxid > zxid
    await store.close()


async def test_multi_results(store: MetadataStore) -> None:
    await store.create("/a", b"1")
    results = await store.multi(
        [
            Check("/a", 0),
            Create("/a/b", b""),
            Create("/a/b/s", b"", sequential=True),
            Set("/a", b"2", 0),
            Delete("/a/b/s0000000000"),
            Create("/e", ephemeral=True),
        ]
    )
    assert results == [None, "/a/b", "/a/b/s0000000000", 1, None, "/e"]
    assert (await store.get("/a")).data == b"2"
    assert (await store.get("/e")).ephemeral_owner == store.session_id


@pytest.mark.checklist("R14")
async def test_multi_is_all_or_nothing(store: MetadataStore) -> None:
    await store.create("/epoch", b"1")
    with pytest.raises(MultiError) as failed:
        await store.multi([Create("/x"), Check("/epoch", 3), Delete("/none")])
    assert failed.value.index == 1
    assert isinstance(failed.value.cause, BadVersionError)
    assert isinstance(failed.value.results[0], RolledBackError)
    assert len(failed.value.results) == 3
    assert await store.exists("/x") is None
    with pytest.raises(MultiError) as failed:
        await store.multi([Set("/epoch", b"2"), Create("/epoch")])
    assert isinstance(failed.value.cause, NodeExistsError)
    assert (await store.get("/epoch")).data == b"1"
    assert await store.multi([]) == []


class Watcher:
    """Collects events and waits for the next one."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self.events.put_nowait(event)

    async def next(self) -> WatchEvent:
        return await asyncio.wait_for(self.events.get(), 60)


async def test_data_watches_fire_once(store: MetadataStore) -> None:
    await store.create("/a", b"1")
    watcher = Watcher()
    await store.get("/a", watcher)
    await store.set("/a", b"2")
    assert await watcher.next() == WatchEvent(WatchKind.CHANGED, "/a")
    await store.set("/a", b"3")
    await store.get("/a", watcher)
    await store.delete("/a")
    assert await watcher.next() == WatchEvent(WatchKind.DELETED, "/a")
    await store.exists("/a", watcher)
    await store.create("/a")
    assert await watcher.next() == WatchEvent(WatchKind.CREATED, "/a")
    assert watcher.events.empty()
    with pytest.raises(NoNodeError):
        await store.get("/none", watcher)
    await store.create("/none")
    await store.sync()
    assert watcher.events.empty()


async def test_child_watches(store: MetadataStore) -> None:
    await store.create("/a")
    watcher = Watcher()
    await store.children("/a", watcher)
    await store.set("/a", b"data does not matter to a child watch")
    await store.multi([Create("/a/1"), Create("/a/2")])
    assert await watcher.next() == WatchEvent(WatchKind.CHILDREN, "/a")
    assert await store.children("/a", watcher) == ["1", "2"]
    await store.delete("/a/1")
    assert await watcher.next() == WatchEvent(WatchKind.CHILDREN, "/a")
    await store.delete("/a/2")
    await store.sync()
    assert watcher.events.empty()
    await store.children("/a", watcher)
    await store.delete("/a")
    assert (await watcher.next()).kind is WatchKind.DELETED


async def test_a_failed_multi_fires_nothing(store: MetadataStore) -> None:
    await store.create("/a")
    watcher = Watcher()
    await store.exists("/a", watcher)
    with pytest.raises(MultiError):
        await store.multi([Set("/a", b"x"), Delete("/none")])
    await store.sync()
    assert watcher.events.empty()


async def test_concurrent_versioned_sets_lose_nothing(store: MetadataStore) -> None:
    await store.create("/n", b"0")

    async def add() -> None:
        while True:
            node = await store.get("/n")
            try:
                await store.set("/n", str(int(node.data) + 1).encode(), node.version)
            except BadVersionError:
                continue
            return

    await asyncio.gather(*(add() for _ in range(20)))
    assert (await store.get("/n")).data == b"20"


async def test_ensure_path(store: MetadataStore) -> None:
    await ensure_path(store, "/x/y/z")
    await ensure_path(store, "/x/y/z")
    assert await store.children("/x/y") == ["z"]


async def test_ensure_paths_is_one_commit_of_what_is_missing(
    store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_path(store, "/x/y")
    await ensure_paths(store, ["/x/y/z", "/a/b", "/a/c/d", "/x"])
    made = [await store.get(path) for path in ("/x/y/z", "/a", "/a/b", "/a/c", "/a/c/d")]
    assert len({node.created_zxid for node in made}) == 1

    async def multi(operations: object) -> None:
        raise AssertionError("all is there")

    with monkeypatch.context() as patched:
        patched.setattr(store, "multi", multi)
        await ensure_paths(store, ["/x/y/z", "/a/c/d"])


async def test_ensure_paths_beside_another_broker(store: MetadataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client creates some of these nodes between the read and the commit."""
    multi = store.multi

    async def later(operations: Sequence[Operation]) -> list[OperationResult]:
        await ensure_path(store, "/x/z")
        return await multi(operations)

    monkeypatch.setattr(store, "multi", later)
    await ensure_paths(store, ["/x/y", "/x/z"])
    assert await store.children("/x") == ["y", "z"]


async def test_closed_store_refuses(opener: Opener) -> None:
    store = await opener()
    states: list[SessionState] = []
    store.on_session(states.append)
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.get("/")
    assert states == [SessionState.LOST]
