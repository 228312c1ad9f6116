"""What quotas cost, and what a greedy client takes from its neighbours: `python -m benches.quotas`."""
