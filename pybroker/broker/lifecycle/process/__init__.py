"""The process of a broker: from the command line to an exit code. A test's broker also ends when its parent process
ends.
"""
