"""The one judge of a plan, its tally, and certificates that need no search."""
