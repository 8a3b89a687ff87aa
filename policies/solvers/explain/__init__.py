"""Explanations of infeasibility: minimal cores, and which entries to withhold."""
