"""The daemon: its ticks, and who leads."""
