"""The gate: every exposure is judged against all that was shown before, or not made."""
