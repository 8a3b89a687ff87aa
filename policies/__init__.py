"""The policy language, the disclosure model and the solvers: pure, no I/O."""
