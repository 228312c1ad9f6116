"""Common parts of commands that run Spark: session, signals, progress, errors as one line.

Functions import pyspark when they need it.
"""
