"""The REST API under ``/api/v1``: the operations over HTTP, for programs.

``routes.ROUTES`` is the literal table of all addresses; docs/reference/api.md explains
what they have in common, and docs/reference/openapi.json describes each. Nothing is
loaded here: clients need :mod:`.documents` alone.
"""
