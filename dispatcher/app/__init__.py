"""The daemon: scheduler, jobs, leadership and servers."""
