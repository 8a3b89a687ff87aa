"""The REST API under ``/api/v1``: the operations over HTTP, for programs.

``routes.ROUTES`` is the literal table of all addresses; docs/reference/api.md explains
what they have in common, and docs/reference/openapi.json describes each.
"""

from dispatcher.surfaces.api.app import ApiSettings, api_app
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.requests import Requests

__all__ = ["ApiSettings", "Requests", "Shared", "Stream", "api_app"]
