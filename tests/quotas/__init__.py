"""Quotas of clients, enforced."""
