"""Frames → record batches: the compiled fast path, batches of bytes to Arrow columns."""
