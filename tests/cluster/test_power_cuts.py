"""Machines lose power, and disks are lost. No acknowledged record is lost while another replica has it, and a broker
that has lost records is not treated as complete."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator

import pytest

from pybroker.client import AlterConfigOp, ConfigResource, blocking
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.support.cluster import BrokerCluster, ClusterBroker, running_cluster, until
from tests.support.disks import LoopDisk, can_mount
from tests.support.replicas import (
    Writer,
    await_unregistered,
    create,
    log_of,
    produce_as_leader,
    read,
    same_logs,
    state,
)

SETTINGS = {
    "replica.lag.time.max.ms": "1000",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "2",
    # In os mode a power cut can remove everything since the last check.
    "log.flush.interval.messages": "100000",
}
REPLICAS = [2, 3, 1]


class Machines:
    """Brokers, each on a disk that can lose its power. If no such disk can be mounted, the process is only killed."""

    def __init__(self, cluster: BrokerCluster, disks: dict[int, LoopDisk]) -> None:
        self.cluster = cluster
        self._disks = disks
        self._cuts = 0

    def cut(self, *numbers: int) -> None:
        """Cut the power of these brokers at once. The signal comes first: a broker that continues while its disk dies
        could report records as written that are not."""
        for number in numbers:
            os.kill(self.cluster.brokers[number].pid, signal.SIGKILL)
        for number in numbers:
            if number in self._disks:
                self._disks[number].cut()
        for number in numbers:
            self.cluster.brokers[number].kill()

    def power_up(self, *numbers: int) -> None:
        """Restore the power of machines; their brokers stay stopped."""
        self._cuts += 1
        for number in numbers:
            if number in self._disks:
                self._disks[number].reboot()
            self.cluster.brokers[number].boot_id = f"boot {self._cuts}"

    def cut_all(self) -> None:
        """Cut the power of all machines at once. Return when they have power again: machines take longer to start than
        a session lasts. A quorum without a majority ends no registration."""
        numbers = tuple(self.cluster.brokers)
        self.cut(*numbers)
        if not self.cluster.on_quorum:
            for number in numbers:
                await_unregistered(self.cluster, number)
        self.power_up(*numbers)


@pytest.fixture(scope="module", params=["os", "commit"])
def machines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, store: Store
) -> Iterator[Machines]:
    """The machines, in each flush mode."""
    folder = tmp_path_factory.mktemp(f"power-{request.param}")
    size = survives_two_losses(store)
    disks = {number: LoopDisk(folder / f"disk-{number}", 200) for number in range(1, size + 1)} if can_mount() else {}

    def on_disk(broker: ClusterBroker) -> None:
        broker.boot_id = "boot 0"
        if disks:
            broker.settings["log.dirs"] = str(disks[broker.broker_id].path / "data")

    try:
        settings = {**SETTINGS, "log.flush.mode": request.param}
        with running_cluster(folder, size, settings, prepare=on_disk, store=store) as cluster:
            yield Machines(cluster, disks)
    finally:
        for disk in disks.values():
            disk.close()


def flush_mode(machines: Machines) -> str:
    return machines.cluster.brokers[1].settings["log.flush.mode"]


def has_journal(machines: Machines, number: int) -> bool:
    return (machines.cluster.brokers[number].log_dir / "journal.0").exists()


@pytest.mark.checklist("R29", "C3")
def test_one_machine_loses_power(machines: Machines) -> None:
    """Three replicas, two at least in sync: nothing that was acknowledged is lost, in either mode."""
    name = f"one-{flush_mode(machines)}"
    create(machines.cluster, name, REPLICAS)
    writer = Writer(machines.cluster, name)
    writer.start()
    writer.goes_on()
    assert has_journal(machines, 2) == (flush_mode(machines) == "commit")
    machines.cut(2)
    writer.goes_on()
    machines.power_up(2)
    machines.cluster.brokers[2].start()
    until(lambda: state(machines.cluster, name).isr == {1, 2, 3})
    writer.goes_on()
    acknowledged = writer.finish()
    same_logs(machines.cluster, name)
    assert read(machines.cluster, name)[: len(acknowledged)] == acknowledged


@pytest.mark.checklist("C2", "R29", "C4", "C8")
def test_all_machines_lose_power_at_once(machines: Machines) -> None:
    """In commit mode, acknowledged records are there. In os mode, records that were not flushed may be gone, and the
    log names the partitions."""
    name = f"all-{flush_mode(machines)}"
    create(machines.cluster, name, REPLICAS)
    for number in range(20):
        produce_as_leader(machines.cluster.brokers[2], name, str(number))
    consoles = [broker.console.stat().st_size for broker in machines.cluster.brokers.values()]
    machines.cut_all()
    machines.cluster.start()
    until(lambda: state(machines.cluster, name).isr == {1, 2, 3})
    same_logs(machines.cluster, name)
    found = read(machines.cluster, name)
    assert found == [str(number) for number in range(len(found))]

    def told() -> str:
        brokers = machines.cluster.brokers.values()
        return "".join(one.console.read_text()[before:] for before, one in zip(consoles, brokers, strict=True))

    if flush_mode(machines) == "commit":
        assert len(found) == 20
    else:
        until(lambda: f"{name}-0" in told() and "lost power" in told())


@pytest.mark.checklist("C2", "R29")
def test_all_machines_lose_power_while_all_are_written_to(machines: Machines) -> None:
    """Each broker leads a partition and follows two. The last writes are only in the disks' journals."""
    if flush_mode(machines) == "os":
        pytest.skip("what was not flushed may be gone in this mode")
    writers = {}
    for replicas in ([1, 2, 3], [2, 3, 1], [3, 1, 2]):
        name = f"led-by-{replicas[0]}"
        create(machines.cluster, name, replicas)
        writers[name] = Writer(machines.cluster, name)
        writers[name].start()
    for writer in writers.values():
        writer.goes_on()
    assert all(has_journal(machines, number) for number in (1, 2, 3))
    machines.cut_all()
    machines.cluster.start()
    for writer in writers.values():
        writer.goes_on()
    for name, writer in writers.items():
        acknowledged = writer.finish()
        same_logs(machines.cluster, name)
        assert read(machines.cluster, name)[: len(acknowledged)] == acknowledged


@pytest.mark.checklist("R29", "C7")
def test_a_replica_that_lost_its_end_waits_for_one_that_has_it(machines: Machines) -> None:
    """Both replicas were in sync. The first that returns has lost the end of its log in the power cut (os mode). It
    does not become leader before the other one is back, and then has all records."""
    if flush_mode(machines) == "commit":
        pytest.skip("what is in sync is on disk in this mode")
    create(machines.cluster, "shorter", [3, 2])
    produce_as_leader(machines.cluster.brokers[3], "shorter", "first")
    produce_as_leader(machines.cluster.brokers[3], "shorter", "last")
    whole = same_logs(machines.cluster, "shorter")
    machines.cluster.kill()
    # The log ends with what the kernel had written by then.
    (log,) = (machines.cluster.brokers[3].data_dir / "shorter-0").glob("*.log")
    log.write_bytes(whole[: len(whole) // 2])
    machines.cluster.brokers[3].boot_id = "another boot"
    # A quorum decides nothing before a majority runs.
    others = [broker for number, broker in machines.cluster.brokers.items() if number != 2]
    # While its port accepts connections, broker 2 does not count as dead before its session ends. If it did so before
    # broker 3 has registered, broker 3 would be the only one in the ISR.
    with socket.create_server(("127.0.0.1", machines.cluster.brokers[2].between_port)):
        for broker in others:
            broker.launch()
        for broker in others:
            broker.await_answers()
        # While the other replica's broker is still registered, it counts as alive and may be elected.
        until(lambda: (state(machines.cluster, "shorter").isr, state(machines.cluster, "shorter").leader) == ({2}, -1))
    machines.cluster.brokers[2].start()
    assert same_logs(machines.cluster, "shorter") == whole
    assert read(machines.cluster, "shorter") == ["first", "last"]


def lose_disk(machines: Machines, number: int) -> None:
    """Delete a broker's directories after it has ended. With new directories it counts as a different broker, which can
    register only when the old session has ended."""
    await_unregistered(machines.cluster, number)
    broker = machines.cluster.brokers[number]
    for each in broker.data_dir.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@pytest.mark.checklist("R29", "C8")
def test_an_empty_disk_does_not_lead_what_only_it_had(machines: Machines) -> None:
    """The last in-sync replica returns with an empty disk. The others keep their records and do not truncate to it. If
    unclean elections are allowed, one of them leads."""
    name = f"emptied-{flush_mode(machines)}"
    create(machines.cluster, name, [2, 3], min_insync_replicas="1")
    produce_as_leader(machines.cluster.brokers[2], name, "kept")
    same_logs(machines.cluster, name)
    machines.cluster.brokers[2].stop()
    until(lambda: (state(machines.cluster, name).leader, state(machines.cluster, name).isr) == (3, {3}))
    produce_as_leader(machines.cluster.brokers[3], name, "lost")
    machines.cluster.brokers[3].kill()
    until(lambda: state(machines.cluster, name).leader == -1)
    lose_disk(machines, 3)
    machines.cluster.brokers[3].start()
    line = "log directories that this broker had before are gone"
    until(lambda: line in machines.cluster.brokers[3].console.read_text())
    machines.cluster.brokers[2].start()
    assert b"kept" in log_of(machines.cluster.brokers[2], name)
    # The same holds after its next start, which finds the same disk.
    machines.cluster.brokers[3].restart(crash=True)
    machines.cluster.brokers[3].restart()
    assert state(machines.cluster, name).leader == -1
    with blocking.AdminClient({"bootstrap.servers": machines.cluster.bootstrap}) as admin:
        change = AlterConfigOp("unclean.leader.election.enable", "true")
        admin.incremental_alter_configs({ConfigResource.topic(name): [change]})
    until(lambda: state(machines.cluster, name).leader == 2)
    same_logs(machines.cluster, name)
    assert read(machines.cluster, name) == ["kept"]


@pytest.mark.checklist("R29")
def test_an_empty_disk_is_filled_by_the_others(machines: Machines) -> None:
    """The broker was in sync, but does not lead before it has all records again, although it is the preferred
    leader."""
    name = f"filled-{flush_mode(machines)}"
    create(machines.cluster, name, REPLICAS)
    for number in range(5):
        produce_as_leader(machines.cluster.brokers[2], name, str(number))
    whole = same_logs(machines.cluster, name)
    machines.cluster.brokers[2].kill()
    until(lambda: state(machines.cluster, name).leader == 3)
    lose_disk(machines, 2)
    machines.cluster.brokers[2].start()
    assert same_logs(machines.cluster, name) == whole
