"""What is kept for others: evidence for auditors."""
