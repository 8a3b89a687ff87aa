"""Foundations used everywhere: errors, settings, logs, keys, plug-ins, meters."""
