"""The only writer of metadata: events, the pure functions that decide them, and the loop that stores each decision,
shows it, sends it to the brokers and answers.
"""
