"""The dispatcher: records go in, safe tasks go out, records come back whole.

Read in flow order: ``stages/`` (intake, planning, booking, sending, serving,
collecting, assembly), the gate that they all pass (``ledger/``), and their state
(``store/`` over ``model``).
"""
