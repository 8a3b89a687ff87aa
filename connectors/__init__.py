"""Connectors: how assignments reach task markets, folders and feeds."""
