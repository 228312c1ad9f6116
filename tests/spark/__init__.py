"""The Spark data source: its native part, its plans, and whole jobs in a real Spark."""
