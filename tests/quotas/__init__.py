"""Enforcement of client quotas."""
