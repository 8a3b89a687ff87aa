"""Files that connectors write, and the guard against formulas in them."""
