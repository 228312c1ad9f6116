"""Kafka's wire protocol as Python sees it: types and tables, no logic. native/protocol reads and writes."""
