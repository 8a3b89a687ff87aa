"""Why there is no plan: minimal cores, and what to withhold."""
