"""Downloads and builds what tests need from package registries, before any test runs: the time limit of a test does not
include downloads."""

from __future__ import annotations

from pathlib import Path

from examples.roundtrip.connector import connector_jars
from pybroker.testing.zookeeper.server import zookeeper_jars
from tests.oracle import test_oracle
from tests.support import go, java, maven, node

TESTS = Path(__file__).parents[1]
PROGRAMS = {
    "clients/java/ClientDriver.java": maven.CLIENTS,
    "configs/java/ConfigTables.java": maven.BROKER,
    "log_dirs/java/MoveReplica.java": maven.CLIENTS,
    "security/java/SaslClient.java": maven.TOOLS,
    "transactions/java/Transactions.java": maven.CLIENTS,
}


def main() -> None:
    """Download and build everything; quick if it exists already."""
    connector_jars()
    zookeeper_jars()
    for source, libraries in PROGRAMS.items():
        java.compiled(TESTS / source, maven.jars(libraries))
    for libraries in test_oracle.RELEASES.values():
        java.compiled(test_oracle.SOURCE, maven.jars(libraries))
    for module in ("clients/go", "security/franz", "transactions/go"):
        go.built(TESTS / module)
    for program in ("clients/kafkajs/driver.js", "transactions/kafkajs/transactions.js"):
        node.installed(TESTS / program, node.KAFKAJS)


if __name__ == "__main__":
    main()
