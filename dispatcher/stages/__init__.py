"""The stages in flow order, from intake to assembly.

Intake, planning, booking, sending, serving, collecting, assembly: each reads the table
before it and writes the next; none imports another.
"""
