"""What formats and tables need of Arrow: types, arrays, batches of frames and their keys."""
