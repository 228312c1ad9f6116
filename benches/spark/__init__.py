"""Spark's Kafka connector into Apache Kafka against `format("pybroker")` into pybroker: `python -m benches.spark`."""
