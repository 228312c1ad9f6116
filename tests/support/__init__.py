"""What the tests that drive a whole broker share: downloads, programs of other languages, brokers to test against."""
