"""The demo: drawn forms, simulated workers, and ``up`` as a process beside them."""
