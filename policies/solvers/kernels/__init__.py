"""Inner loops that are compiled where there is much to do: plain functions over arrays."""
