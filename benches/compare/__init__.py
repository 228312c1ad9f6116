"""Compares Apache Kafka and pybroker under the same load, in turn, on one machine: `make bench`."""
