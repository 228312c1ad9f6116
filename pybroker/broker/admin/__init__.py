"""What administrative requests do, independent of protocol versions."""
