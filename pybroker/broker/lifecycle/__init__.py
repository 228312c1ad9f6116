"""Builds, starts, watches and stops a broker."""
