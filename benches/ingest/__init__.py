"""What does a staged commit cost, and what do other producers feel of a bulk load?"""
