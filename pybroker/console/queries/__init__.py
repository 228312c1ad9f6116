"""Queries to the cluster for the pages. No code here depends on HTTP."""
