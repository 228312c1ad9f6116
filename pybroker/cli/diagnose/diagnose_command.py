"""The command line of `pybroker diagnose`, and the selection of parts."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.local_broker import settings_options
from pybroker.cli.options import refusals_told
from pybroker.cli.output import say, write_json
from pybroker.cli.target import address_option, target_of

if TYPE_CHECKING:
    from pybroker.cli.diagnose.archive import Archive
    from pybroker.config import BrokerConfig

LOG_BYTES_MAX = 4 << 20
"""Number of bytes that are copied from the end of each log file."""


@click.command()
@settings_options("Settings file of a broker on this machine.")
@click.option(
    "--log",
    "logs",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Log file of the broker; its end is included. Repeatable.",
)
@address_option("Query these running brokers instead of this machine; add --config to cover both.")
@click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Client settings file: Kafka's names, one key=value per line.",
)
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Archive (.tar.gz) to write.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary as JSON.")
def diagnose(
    file: str | None,
    assignments: tuple[str, ...],
    *,
    logs: tuple[Path, ...],
    bootstrap_server: str | None,
    command_config: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write an archive for a bug report.

    The archive contains no secrets and no records.

    For a broker on this machine (--config as for `start`; default: the settings of a plain `pybroker start`), running
    or stopped: settings, metadata and disks; if it runs, also metrics, the end of its log and its threads. For brokers
    elsewhere (--bootstrap-server): everything that an administrator can query.

    The archive contains names of topics, groups, users, hosts and files: review it before you share it.
    """
    from pybroker.broker.observability.diagnosis.redaction import Cleaner
    from pybroker.cli.diagnose.archive import Archive
    from pybroker.cli.diagnose.machine_report import machine

    if file is not None and not os.access(file, os.R_OK):
        raise click.ClickException(f"{file} cannot be read: pass the broker's settings file, or omit --config.")
    path = output or Path(time.strftime("pybroker-diagnose-%Y%m%d-%H%M%S.tar.gz"))
    target = target_of(bootstrap_server, command_config, json=as_json) if bootstrap_server is not None else None
    with refusals_told():
        client_config = target.client_config() if target is not None else {}
        config, problem = _settings(file, assignments)
        secrets = _secrets(config, client_config)
        with Archive(path, Cleaner(secrets)) as archive:
            archive.document("machine.json", "this machine, its Python and packages", machine())
            for number, log in enumerate(logs):
                archive.text(f"logs/{number}-{log.name}", f"the end of {log}", _end_of(log))
            if target is None or file is not None or assignments:
                _broker_here(archive, file, assignments, config, problem)
            if bootstrap_server is not None:
                _cluster(archive, client_config)
    _print_summary(archive, as_json=as_json)


def _settings(file: str | None, assignments: tuple[str, ...]) -> tuple[BrokerConfig | None, str]:
    from pybroker.config import ConfigError, load_config

    try:
        return load_config(file, assignments).config, ""
    except ConfigError as problem:
        return None, str(problem)


def _secrets(config: BrokerConfig | None, client_config: dict[str, Any]) -> set[str]:
    from pybroker.broker.observability.diagnosis import redaction

    return (redaction.secrets(config) if config is not None else set()) | redaction.secrets_of_client(client_config)


def _broker_here(
    archive: Archive, file: str | None, assignments: tuple[str, ...], config: BrokerConfig | None, problem: str
) -> None:
    from pybroker.cli.doctor.doctor_command import machine_and_settings

    found = machine_and_settings(file, assignments)
    archive.document("doctor.json", "output of `pybroker doctor`", [each.document() for each in found])
    if config is None:
        archive.lacks("broker", f"the settings are invalid: {problem}")
        return
    _disks(archive, config)
    if not _of_running(archive, config):
        _of_stopped(archive, config)


def _disks(archive: Archive, config: BrokerConfig) -> None:
    from pybroker.cli.diagnose import directory_listing

    for number, directory in enumerate(map(Path, config.log_dirs)):
        about = f"disks/{number}"
        try:
            archive.document(f"{about}.json", f"the disk of {directory}", directory_listing.disk(directory))
        except OSError as problem:
            archive.lacks(f"{about}.json", str(problem))
        archive.text(f"{about}-files.txt", f"the files in {directory}", "".join(directory_listing.listing(directory)))
        found = "\n".join(f"== {name}\n{text}" for name, text in directory_listing.texts(directory))
        archive.text(f"{about}-checkpoints.txt", f"checkpoints and ids in {directory}", found)


RUNNING = {
    "settings": ("settings.json", "effective settings and their sources"),
    "metadata": ("metadata.json", "contents of the metadata store"),
    "quorum": ("quorum.json", "the metadata quorum and its metadata, without settings"),
    "metrics": ("metrics.txt", "metrics of the broker"),
    "log": ("log.txt", "last lines of the broker's log"),
    "threads": ("threads/python.txt", "stacks of Python threads"),
    "tasks": ("threads/tasks.txt", "control-plane tasks and what they wait for"),
    "kernel_threads": ("threads/kernel.txt", "all threads: state, CPU time, name, wait location in the kernel"),
    "process": ("process.json", "the broker's process: memory, files, limits"),
}
"""Part of a running broker's report → file and description."""


def _of_running(archive: Archive, config: BrokerConfig) -> bool:
    """Add a running broker's report; return whether a broker responded."""
    from pybroker.broker.observability.diagnosis.diagnosis_socket import ask

    try:
        report = ask(Path(config.log_dirs[0]))
    except OSError as problem:
        archive.lacks("running broker", f"{problem}; run the command as the user that runs the broker")
        return False
    if report is None:
        return False
    for part, why in report.get("problems", {}).items():
        archive.lacks(RUNNING[part][0] if part in RUNNING else part, str(why))
    archive.document(
        "broker.json",
        "version and process id of the running broker",
        {name: report.get(name) for name in ("version", "pid")},
    )
    for part, (name, what) in RUNNING.items():
        found = report.get(part)
        if part == "log" and isinstance(found, list):
            archive.text(name, what, "".join(f"{line}\n" for line in found))
        elif isinstance(found, str):
            archive.text(name, what, found)
        elif found is not None:
            archive.document(name, what, found)
    return True


def _of_stopped(archive: Archive, config: BrokerConfig) -> None:
    from pybroker.broker.metadata.metadata_store import StoreError
    from pybroker.broker.observability.diagnosis import redaction
    from pybroker.cli.diagnose.metadata_snapshot import metadata
    from pybroker.errors import StartError

    archive.document("broker.json", "no running broker responded", {"pid": None})
    name, what = RUNNING["settings"]
    archive.document(name, f"{what} (from the command line and the settings file)", redaction.settings(config))
    if config.in_quorum:
        _of_metadata_log(archive, config)
        return
    name, what = RUNNING["metadata"]
    try:
        archive.document(name, what, asyncio.run(metadata(config)))
    except (StartError, StoreError, OSError, sqlite3.Error) as problem:
        archive.lacks(name, str(problem))


def _of_metadata_log(archive: Archive, config: BrokerConfig) -> None:
    from pybroker.broker.observability.diagnosis.quorum_document import image_document
    from pybroker.broker.offline.quorum_directory import read_image
    from pybroker.errors import StartError

    name, _ = RUNNING["quorum"]
    try:
        found = {"metadata": image_document(read_image(Path(config.metadata_log_dir)))}
        archive.document(name, "the metadata in this broker's metadata log, without settings", found)
    except (StartError, OSError) as problem:
        archive.lacks(name, str(problem))


def _cluster(archive: Archive, client_config: dict[str, Any]) -> None:
    from pybroker.cli.diagnose.cluster_snapshot import cluster
    from pybroker.errors import KafkaError

    try:
        asyncio.run(cluster(archive, client_config))
    except (KafkaError, OSError, TimeoutError) as problem:
        archive.lacks("cluster", str(problem) or "no broker responded")


def _end_of(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(stream.tell() - LOG_BYTES_MAX, 0))
        return stream.read(LOG_BYTES_MAX).decode("utf-8", "backslashreplace")


def _print_summary(archive: Archive, *, as_json: bool) -> None:
    if as_json:
        write_json({"archive": str(archive.path), "parts": archive.parts, "missing": archive.missing})
        return
    for part, why in archive.missing.items():
        say(f"missing: {part}: {why}", err=True)
    say(
        f"{archive.path}: {len(archive.parts)} parts. It contains names of topics, users and hosts: review it before "
        "you share it."
    )
