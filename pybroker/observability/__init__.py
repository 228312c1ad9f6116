"""What an operator sees of a running broker: its log, its metrics, and whether it is alive and ready."""
