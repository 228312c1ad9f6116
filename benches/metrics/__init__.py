"""What metrics cost: `python -m benches.metrics`."""
