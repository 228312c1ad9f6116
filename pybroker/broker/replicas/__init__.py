"""Execution of the controller's messages on this broker. This package depends on the messages, not on the controller.
"""
