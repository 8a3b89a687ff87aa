"""The guarded HTTP client, and what is built on it: JSON interfaces, Amazon clients."""
