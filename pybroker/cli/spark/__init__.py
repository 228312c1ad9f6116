"""Common parts of commands that run Spark: the session, signals, progress, and errors in one line.

Functions import pyspark when they need it.
"""
