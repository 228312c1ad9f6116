"""Runs one broker in the foreground. Handles its settings and signals, and prints one line for a start and one clear
line for a failed start.

Exit codes: 0 after a clean stop, 1 if the broker could not start or had to stop, 2 for invalid settings (click's code
for usage errors).
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pybroker.broker import gc_tuning as collector
from pybroker.broker.lifecycle.process.supervision import notify
from pybroker.broker.lifecycle.startup.permission_check import exposed, readable
from pybroker.broker.logs import configure_logging
from pybroker.broker.observability.diagnosis.diagnosis_socket import DiagnosisSocket
from pybroker.config import BrokerConfig, ConfigError, load_config
from pybroker.config.broker_cluster import BOOTSTRAP, METADATA_STORE, QUORUM
from pybroker.config.broker_otlp import ENDPOINT
from pybroker.errors import FatalError, StartError
from pybroker.files import keep_private
from pybroker.version import packages_of

if TYPE_CHECKING:
    from pybroker.broker.lifecycle.app import Broker
    from pybroker.broker.observability.diagnosis.diagnosis_report import Subject
    from pybroker.broker.observability.metrics_server import MetricsServer
    from pybroker.broker.observability.otlp.otlp_export import Export

log = logging.getLogger(__name__)

EXIT_CANNOT_START = 1
EXIT_BAD_SETTINGS = 2

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

ECHO_SECONDS = 0.1
"""Seconds within which a second signal counts as a repetition of the first. An operator does not press Ctrl-C twice
that fast."""

STOP_GRACE_SECONDS = 5
"""Seconds in addition to `shutdown.timeout.ms`, which limits the steps of a stop. If the stop takes longer, the process
is killed."""


def start_command(
    file: str | None,
    assignments: Sequence[str],
    ready_fd: int | None,
    parent_fd: int | None,
    addresses: Sequence[str] = (),
) -> int:
    """Run a broker until a signal (`pybroker start`) and return the exit code.

    `ready_fd` is a pipe that gets one JSON line when the broker serves clients. For `parent_fd` see `supervision`.
    `addresses`: the addresses of brokers whose cluster this broker joins (`--join`).
    """
    if parent_fd is not None:
        from pybroker.broker.lifecycle.process.supervision import die_with_parent

        die_with_parent(parent_fd)
    try:
        joins = (f"{METADATA_STORE}={QUORUM}", f"{BOOTSTRAP}={','.join(addresses)}") if addresses else ()
        config, warnings = load_config(file, (*assignments, *joins), stores=True)
    except ConfigError as problem:
        for each in problem.problems:
            _complain(each, EXIT_BAD_SETTINGS)
        return EXIT_BAD_SETTINGS
    group_access = config.get_str("log.dirs.group.access")
    keep_private(group_access)
    configure_logging(config.get_str("log.level"), json_lines=config.get_str("log.format") == "json")
    places = (*exposed(file, config.log_dirs), *readable(config.log_dirs, group_access))
    for warning in (*warnings, *places):
        log.warning("%s", warning)
    _raise_file_limit()
    try:
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    except ImportError:  # uvloop is not a dependency on Windows
        loop = asyncio.new_event_loop()
    loop.set_exception_handler(_handle_loop_exception)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(Foreground(loop, config, ready_fd, parent_fd).run())
    finally:
        loop.close()


def _handle_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore uvloop's error after a failed TLS handshake: uvloop sends the TLS alert after it has closed the
    connection. The code that opened the connection gets and logs the real error.
    """
    of_uvloop = str(context.get("message", "")).startswith("Fatal error on SSL protocol")
    if of_uvloop and isinstance(context.get("exception"), RuntimeError):
        log.debug("%s", context["exception"])
    else:
        loop.default_exception_handler(context)


def _complain(problem: str, code: int) -> int:
    print(f"pybroker: {' '.join(problem.split())}", file=sys.stderr, flush=True)
    return code


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit: each partition has open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS reports an unlimited hard limit but does not grant it.
        log.debug("cannot raise the limit of open files; it stays at %d", soft)


class Foreground:
    """Runs a broker from a configuration to an exit code."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: BrokerConfig, ready_fd: int | None, parent_fd: int | None
    ) -> None:
        self._loop = loop
        self._config = config
        self._ready_fd = ready_fd
        self._parent_fd = parent_fd
        self._signal: asyncio.Future[int] = loop.create_future()
        self._http: MetricsServer | None = None
        self._otlp: Export | None = None
        self._serving = False

    async def run(self) -> int:
        """Start, wait for a signal or a fatal failure, and stop."""
        if self._parent_fd is not None:
            from pybroker.broker.lifecycle.process.supervision import watch_parent

            watch_parent(self._loop, self._parent_fd)
        for each in STOP_SIGNALS:
            signal.signal(each, self._on_signal)
        from pybroker.broker.lifecycle.app import Broker

        broker = Broker(self._config)
        diagnosis = DiagnosisSocket(Path(self._config.log_dirs[0]), lambda: self._subject(broker))
        # Listen before the start, which may take long. If the data directory is new, listen afterwards, because the
        # start creates the directory.
        diagnosis.start()
        try:
            return await self._run(broker, diagnosis)
        finally:
            diagnosis.stop()

    async def _run(self, broker: Broker, diagnosis: DiagnosisSocket) -> int:
        try:
            await self._start_http(broker)
            self._otlp_is_there()
            starting = asyncio.ensure_future(broker.start())
            await asyncio.wait((starting, self._signal), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                # A signal interrupts a long recovery: the data on disk stays valid, and the next start continues.
                starting.cancel()
                await asyncio.wait((starting,))
            if starting.cancelled():
                log.info("Stopped during the start")
                return 0
            starting.result()
        except Exception as problem:
            return _complain(self._explain(problem), EXIT_CANNOT_START)
        self._serving = True
        self._start_otlp(broker)
        diagnosis.start()
        self._announce(broker)
        notify("READY=1")
        collector.for_a_broker()
        await asyncio.wait((self._signal, broker.failed), return_when=asyncio.FIRST_COMPLETED)
        return await self._stop(broker)

    def _subject(self, broker: Broker) -> Subject:
        from pybroker.broker.observability.diagnosis.diagnosis_report import Subject

        return Subject(self._config, self._loop, broker.scrape, broker.metadata, broker.quorum_document)

    def _on_signal(self, number: int, _frame: object) -> None:
        """Handle a signal. Install it with `signal`, not on the loop: removing a handler from the loop restores the
        kernel's default for a moment, and some senders signal twice (timeout(1) signals its child and then the child's
        group).
        """
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        self._loop.call_soon_threadsafe(self._begin_stop, number)

    def _begin_stop(self, number: int) -> None:
        if self._signal.done():  # SIGINT and SIGTERM arrived together.
            return
        self._signal.set_result(number)
        self._loop.call_later(ECHO_SECONDS, self._let_signals_end_at_once)

    def _let_signals_end_at_once(self) -> None:
        """Restore the kernel's default: a second signal ends the process, even if the loop hangs."""
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    async def _stop(self, broker: Broker) -> int:
        self._serving = False
        notify("STOPPING=1")
        if self._signal.done():
            log.info("%s: stopping", signal.Signals(self._signal.result()).name)
        self._arm_deadline()
        if self._http is not None:
            self._http.stop()
        if self._otlp is not None:
            await self._loop.run_in_executor(None, self._otlp.stop)
        try:
            await broker.stop()
        except Exception as problem:
            if not broker.failed.done():
                log.error("The stop was not clean; the next start recovers", exc_info=problem)
                return EXIT_CANNOT_START
            # The fatal failure has the reason: print it in one line, without a second traceback.
            log.warning("The stop was not clean, the next start recovers: %s", problem)
        if broker.failed.done():
            return _complain(str(broker.failed.exception() or "the broker failed"), EXIT_CANNOT_START)
        log.info("Stopped")
        return 0

    def _arm_deadline(self) -> None:
        """End the process if the stop hangs. The default action of SIGALRM ends the process without the loop or the
        GIL.
        """
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, self._config.get_int("shutdown.timeout.ms") / 1000 + STOP_GRACE_SECONDS)

    async def _start_http(self, broker: Broker) -> None:
        address = self._config.get_str("metrics.listener")
        if not address:
            return
        from pybroker.broker.observability.metrics_server import MetricsServer
        from pybroker.config.listener_addresses import host_port

        host, port = host_port(address)
        self._http = MetricsServer(host, port, broker.scrape, lambda: self._not_ready(broker))
        try:
            bound = await self._http.start()
        except OSError as problem:
            raise StartError(f"metrics.listener={address}: cannot listen: {_reason(problem)}") from None
        log.info("Metrics at http://%s:%d/metrics", *bound)

    def _not_ready(self, broker: Broker) -> str | None:
        """Return the body of /readyz; None if the broker serves clients."""
        if not self._serving or broker.services is None:
            return "clients are not served"
        return broker.services.disk_room.reason_not_ready(self._config.get_int("ready.log.dir.usable.bytes.min"))

    def _otlp_is_there(self) -> None:
        """Raise StartError if packages that `otlp.endpoint` needs are missing."""
        if not self._config[ENDPOINT]:
            return
        try:
            importlib.import_module("pybroker.broker.observability.otlp.otlp_export")
        except ImportError as problem:
            needs = f"{ENDPOINT} needs the package {problem.name}: pip install {packages_of('otlp')}"
            raise StartError(needs) from None

    def _start_otlp(self, broker: Broker) -> None:
        if not self._config[ENDPOINT]:
            return
        from pybroker.broker.observability.otlp.otlp_export import Source, export

        services = broker.services
        assert services is not None, "a started broker has services"
        source = Source(self._loop, broker.collect_metrics, services.native.take_slow_requests)
        self._otlp = export(self._config, source, services)
        self._otlp.start()

    def _announce(self, broker: Broker) -> None:
        services = broker.services
        assert services is not None, "a started broker has services"
        addresses = [str(listener) for listener in broker.endpoints]
        data = ", ".join(self._config.log_dirs)
        print(
            f"pybroker is ready: {', '.join(addresses)}, cluster id {services.cluster_id}, data in {data}", flush=True
        )
        if self._ready_fd is not None:
            report = {
                "endpoints": [[endpoint.name, endpoint.host, endpoint.port] for endpoint in broker.endpoints],
                "cluster_id": services.cluster_id,
                "broker_id": services.broker_id,
            }
            os.write(self._ready_fd, msgspec.json.encode(report) + b"\n")
            os.close(self._ready_fd)

    def _explain(self, problem: Exception) -> str:
        if isinstance(problem, StartError | ConfigError | FatalError):
            return str(problem)
        log.debug("the start failed", exc_info=problem)
        if isinstance(problem, OSError):
            where = f"{problem.filename}: " if problem.filename else ""
            return f"cannot start: {where}{_reason(problem)}"
        return (
            f"cannot start: {type(problem).__name__}: {problem} "
            "(this is a bug in pybroker; --set log.level=DEBUG shows where)"
        )


_ADVICE = {
    errno.EADDRINUSE: "the address is in use by another process; stop that one or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "permission denied; run as a user with access, or choose another place",
    errno.EPERM: "not permitted; run as a user with access, or choose another place",
    errno.ENOSPC: "the disk is full; make room and start again",
    errno.EFBIG: "the file cannot grow beyond the file size limit; raise the limit (ulimit -f) and start again",
    errno.EDQUOT: "the disk quota is used up; make room and start again",
    errno.EROFS: "the file system is read-only; choose another place with log.dirs",
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
}


def _reason(problem: OSError) -> str:
    return _ADVICE.get(problem.errno or 0) or problem.strerror or str(problem)
