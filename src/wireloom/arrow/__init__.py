"""What formats and tables share of Arrow: types, arrays, batches of frames and their keys."""
