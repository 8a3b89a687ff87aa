"""Inner loops: plain functions over arrays, compiled for large problems."""
