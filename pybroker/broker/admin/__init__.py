"""What an administrative request means, free of versions."""
