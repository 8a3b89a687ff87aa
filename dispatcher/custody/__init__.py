"""Custody of the store: backups, restores, erasures, and evidence for auditors."""
