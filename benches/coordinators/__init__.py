"""The cost of groups, transactions and share groups, compared with Apache Kafka: `python -m benches.coordinators`."""
