"""Begins a metadata log with one voter, whose first snapshot is a whole image.

A node in a temporary directory writes the snapshot. The content of a snapshot does not contain the end of the log and
its epoch; only the name does (KIP-630). Renaming the file therefore sets them.
"""

from __future__ import annotations

import select
import shutil
import time
from pathlib import Path

from pybroker.broker.lifecycle.startup.quorum_opening import TIMEOUTS
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.frames import encode_record
from pybroker.broker.metadata.records.snapshots import image_to_records
from pybroker.config import BrokerConfig
from pybroker.errors import StartError
from pybroker.native import NativeError
from pybroker.native_quorum import (
    MetadataQuorum,
    ProposalOutcome,
    QuorumEndpoint,
    QuorumFailure,
    QuorumLeader,
    QuorumReplica,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

LIMIT_S = 60.0
PROPOSAL = 1


def begin_log(
    config: BrokerConfig,
    cluster_id: str,
    image: ClusterImage,
    voter: QuorumReplica,
    *,
    endpoints: list[QuorumEndpoint],
    directory: Path,
) -> None:
    """Begin the log in a new directory, at the image's offset. Its epochs are above the image's controller epoch.
    `endpoints`: the inter-broker addresses of the voter. Raises StartError."""
    # The name is fixed, so that the next run removes the directory of an interrupted run.
    folder = directory.with_name(f"{directory.name}-snapshot")
    remove_tree(folder)
    folder.mkdir()
    try:
        write_snapshot(config, cluster_id, image, voter, folder, timestamp_ms=int(time.time() * 1000))
        MetadataQuorum.restore(folder, image.offset, image.controller_epoch, directory, voter, endpoints)
    except NativeError as problem:
        raise StartError(f"cannot write the metadata log: {problem}") from None
    finally:
        remove_tree(folder)


def snapshot_name(end_offset: int, epoch: int) -> str:
    """Return Kafka's name of a snapshot."""
    return f"{end_offset:020}-{epoch:010}.checkpoint"


def remove_tree(folder: Path) -> None:
    """Remove a directory, if it exists."""
    if folder.exists():
        shutil.rmtree(folder)


def write_snapshot(
    config: BrokerConfig,
    cluster_id: str,
    image: ClusterImage,
    voter: QuorumReplica,
    folder: Path,
    *,
    timestamp_ms: int,
) -> Path:
    """Write a snapshot with one voter into an empty directory; return its path. `timestamp_ms`: append time of the last
    record that the image contains. Raises NativeError, StartError."""
    MetadataQuorum.format(folder, [voter], [])
    before = set(folder.glob("*.checkpoint"))
    node = MetadataQuorum(
        directory=folder,
        node_id=voter.node_id,
        directory_id=voter.directory_id,
        cluster_id=cluster_id,
        bootstrap=[],
        endpoints=[],
        settings={name: config.get_int(name) for name in (*TIMEOUTS, "metadata.log.segment.bytes")},
    )
    try:
        snapshot = node.begin_snapshot(_committed_end(node, voter.node_id), timestamp_ms)
        assert snapshot is not None, "the log has a record that no snapshot has"
        for piece in image_to_records(image):
            snapshot.append(piece)
        snapshot.finish()
    finally:
        node.stop()
    (written,) = set(folder.glob("*.checkpoint")) - before
    return written.rename(folder / snapshot_name(image.offset, image.controller_epoch))


def _committed_end(node: MetadataQuorum, node_id: int) -> int:
    """Commit a record without effect, after the id of the metadata topic; return the end of the log."""
    give_up = time.monotonic() + LIMIT_S
    while (left_s := give_up - time.monotonic()) > 0:
        select.select([node.fileno()], [], [], left_s)
        for item in node.take():
            if isinstance(item, QuorumLeader) and item.leader == node_id:
                node.propose(PROPOSAL, item.epoch, [encode_record(m.NoOpRecord())])
            elif isinstance(item, ProposalOutcome) and item.error_code == ErrorCode.NONE:
                return item.base_offset + 1
            elif isinstance(item, QuorumFailure):
                raise StartError(f"cannot write the metadata log: {item.message}")
    raise StartError(f"the node that writes the metadata log did not become leader in {LIMIT_S:.0f} s")
