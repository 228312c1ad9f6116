"""The product, driven by clients that are not ours. All of it passes against Apache Kafka too (`--broker=kafka`),
and against three brokers of ours (`--broker=cluster`).
"""
