"""The ground that every room stands on: errors, settings, logs, keys, plug-ins, meters."""
