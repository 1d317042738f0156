"""What was read → rows: buffers that Arrow takes as they are."""
