"""Frames of words and bit fields → columns."""
