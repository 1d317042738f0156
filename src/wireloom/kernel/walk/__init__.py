"""Frames of self-describing messages, field by field."""
