"""Streams → frames."""
