"""Relaxations rounded to plans, and random draws."""
