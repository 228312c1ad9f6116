"""One seed, one run: a cluster of real processes in trouble, clients that note what they were told, and a check of
every replica's files at the end.
"""
