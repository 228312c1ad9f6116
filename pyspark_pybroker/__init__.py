"""The module in which Spark looks for data sources by itself: `format("pybroker")` works without registration."""

from pybroker.spark.source import DefaultSource as DefaultSource
