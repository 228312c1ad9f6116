"""The cost of quotas, and the effect of a greedy client on others: `python -m benches.quotas`."""
