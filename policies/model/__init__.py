"""The assignment problem as numbers: sets, weights, utilities, goal, coalitions."""
