"""Execution of the controller's messages on this broker. Knows the messages, not the controller."""
