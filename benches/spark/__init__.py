"""Compares Spark's Kafka connector on Apache Kafka with `format("pybroker")` on pybroker: `python -m benches.spark`."""
