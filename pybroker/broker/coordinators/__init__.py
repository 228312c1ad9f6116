"""Coordinators: what this broker decides for groups of clients and for producers."""
