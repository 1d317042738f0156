"""Captured bytes → packets → streams."""
