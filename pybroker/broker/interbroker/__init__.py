"""What brokers say to each other over the listener for brokers."""
