"""The cost of metrics: `python -m benches.metrics`."""
