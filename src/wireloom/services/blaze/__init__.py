"""Blaze, live: the broker and its store."""
