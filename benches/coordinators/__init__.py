"""What groups, transactions and share groups cost, beside Apache Kafka: `python -m benches.coordinators`."""
