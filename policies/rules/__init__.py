"""The rules of a policy: disclosure functions, relations, and their sensitive sets."""
