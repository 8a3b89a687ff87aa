"""Constructive and local search: GREEDY, GRASP, annealing, exchanges."""
