"""Coordinators: groups of clients, transactions and producer ids."""
