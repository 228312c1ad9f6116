"""Disks that are full, fail or lose power, and damaged files: the product continues, or reports the reason in one line.
"""
