"""Intake: a file becomes records, subjects and entries, each row exactly or refused."""
