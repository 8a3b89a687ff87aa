"""Exact search: CP-SAT, HiGHS, enumeration, and levels of disclosure."""
