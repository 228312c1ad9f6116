"""Compares Python clients on one broker."""
