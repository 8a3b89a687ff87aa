"""Rounding of relaxations to plans, and random draws."""
