"""The Spark data source: its native half, its plans, and whole jobs in a real Spark."""
