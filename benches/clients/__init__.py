"""Python clients compared on one broker."""
