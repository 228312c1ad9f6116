"""Execution of the controller's messages on this broker. This package depends on the messages, but not on the
controller.
"""
