"""What the commands share that run Spark: its session, its end by a signal, progress, errors as one line.

pyspark is imported when a function needs it.
"""
