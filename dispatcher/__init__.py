"""The dispatcher: records go in, safe tasks go out, records come back whole.

Read in flow order: ``stages/`` (intake, planning, booking, sending, serving,
collecting, assembly), the door they all pass (``ledger/``), and what holds their
state (``store/`` over ``model``).
"""
