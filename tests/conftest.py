"""Options and fixtures for tests that drive a whole broker; the other tests use none of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pybroker.testing.maven import QUICK_START
from tests.support.brokers import BrokerProcess
from tests.support.cluster import RUNNING
from tests.support.kinds import KINDS

# The speed of this machine does not matter, and the same code gives the same result each time.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# Read by spark-submit, which starts every Spark of the tests, those of commands too.
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(QUICK_START))

# A shell starts what it puts in the background with interrupts ignored, and so would the programs be that tests
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

StartBroker = Callable[..., BrokerProcess]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        choices=sorted(KINDS),
        default="pybroker",
        help="what client tests run against: the product, a cluster of it, or Apache Kafka as the reference",
    )
    parser.addoption("--chaos-seed", type=int, help="the seed of a run of tests/chaos, instead of the test's own")
    parser.addoption("--chaos-seconds", type=float, help="how long a run of tests/chaos makes trouble")


SPARK = "tests/spark"
# They start Sparks in their own processes.
SPARKS_OF_THEIR_OWN = ("tests/spark/test_cli.py", "tests/spark/test_cli_load.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, with one worker for all files that share a Spark: it is started and warmed up once, and early,
    because larger groups come first."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):  # type: ignore[misc]  # published without types
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            shared = file.startswith((f"{SPARK}/", "tests/clients/test_spark.py")) and file not in SPARKS_OF_THEIR_OWN
            return SPARK if shared else file

    return OneSpark(config, log)


def _brokers(config: pytest.Config, folder: Path, shown: Callable[[], bool]) -> Iterator[StartBroker]:
    """A function that starts brokers under `folder`; all of them are ended, their logs printed if `shown` says so."""
    started: list[BrokerProcess] = []

    def start(settings: Mapping[str, str] | None = None) -> BrokerProcess:
        broker = KINDS[config.getoption("--broker")](folder / f"broker-{len(started)}", settings)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        if shown():
            print(f"--- end of the log of {broker.name}, {broker.console}\n{broker.log_tail()}")
        broker.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets a fixture know at its end whether its test failed; shows what brokers of a cluster had to say."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
        item.session.stash[_FAILED] = True
        report.sections += [section for cluster in RUNNING for section in cluster.logs()]
    return report


_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One running broker for all tests that neither stop it nor care what else is on it."""
    session: pytest.Session = request.session
    brokers = _brokers(request.config, tmp_path_factory.mktemp("shared"), lambda: session.stash.get(_FAILED, False))
    start = next(brokers)
    yield start()
    next(brokers, None)


@pytest.fixture
def start_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts a broker of the test's own, with settings: for tests that restart it, kill it or look at its files."""
    brokers = _brokers(request.config, tmp_path, lambda: request.node.stash.get(_FAILED, False))
    yield next(brokers)
    next(brokers, None)
