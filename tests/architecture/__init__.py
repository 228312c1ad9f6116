"""Tests of the structure of the code."""
