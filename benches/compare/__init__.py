"""Compares Apache Kafka and pybroker under the same load, alternately, on one machine: `make bench`."""
