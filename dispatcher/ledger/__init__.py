"""The gate and the ledger: every exposure is judged against the whole history first."""
