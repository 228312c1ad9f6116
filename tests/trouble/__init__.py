"""Disks that are full, fail or lose power, damaged files: the product goes on, or says in one line why not."""
