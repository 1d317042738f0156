"""What was read → rows: buffers that Arrow uses as they are."""
