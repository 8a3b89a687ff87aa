"""Print the description of the API (OpenAPI 3.1): ``python -m dispatcher.surfaces.api``."""

from __future__ import annotations

import json

from dispatcher.surfaces.api.app import fastapi_app

if __name__ == "__main__":
    print(json.dumps(fastapi_app().openapi(), indent=1, ensure_ascii=False))
