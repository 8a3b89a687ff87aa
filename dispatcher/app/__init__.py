"""The daemon: the scheduler and its jobs, and who leads."""
