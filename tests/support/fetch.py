"""Fetches and builds, before any test runs, what tests need from registries: a test's time limit is for the test."""

from __future__ import annotations

from pathlib import Path

from pybroker.roundtrip.connector import connector_jars
from tests.support import go, java, maven

CLIENTS = Path(__file__).parents[1] / "clients"


def main() -> None:
    """Everything; quick when it is there already."""
    for libraries in (maven.BROKER, maven.CLIENTS, maven.TOOLS):
        maven.jars(libraries)
    connector_jars()
    java.compiled(CLIENTS / "java" / "ClientDriver.java", maven.jars(maven.CLIENTS))
    go.built(CLIENTS / "franz")


if __name__ == "__main__":
    main()
