"""Requests as the API's description allows, and others: no answer is another than told.

One of each form and address; ``make test-long`` sends many, on both databases.
"""

import os
from collections import Counter
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from dispatcher.surfaces.api.routes import ROUTES
from tests.integration import api_house
from tests.integration.api_house import BASE, CANARIES, LOCAL

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    missing_required_header,
    unsupported_method,
]
FILES = {route.act.__name__ for route in ROUTES if route.takes}
"""Addresses whose body is text of any kind: none violates the description."""


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Leave tokens to us: other tests send none, a wrong one, and one that may not."""
    del context, raw_schema["components"]["securitySchemes"]
    for item in raw_schema["paths"].values():
        for operation in item.values():
            operation.pop("security", None)


ENDLESS = "follow_events"
KNOWN = {"run": "default", "connector": "inhouse", "name": "ann", "version": 1}
"""What is there, for addresses that would find nothing else."""


def fuzz(house, examples: int, only=None) -> Counter[int]:
    """Send so many requests of each form to each address; return statuses of answers."""
    schema = schemathesis.openapi.from_asgi(f"{BASE}/openapi.json", house.speaking.app)
    statuses: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        name = operation.definition.raw["operationId"]
        if name == ENDLESS or (only is not None and name not in only):
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _send(house, name, operation, mode, examples, statuses)
    return statuses


def _send(house, name, operation, mode, examples, statuses) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case) -> None:
        if mode is GenerationMode.POSITIVE:
            for known in case.path_parameters.keys() & KNOWN.keys():
                case.path_parameters[known] = KNOWN[known]
        token = {"authorization": "Bearer all"}
        # its own limit of ten seconds would fail on a machine that is busy
        response = case.call(base_url=LOCAL, headers=token, timeout=600)
        statuses[response.status_code] += 1
        if response.status_code == 202:
            house.shared.requests.wait()
        assert not [word for word in CANARIES if word in response.text]
        # the check does not know that 413 refuses, too
        takes_anything = name in FILES or response.status_code == 413
        left_out = {negative_data_rejection} if takes_anything else set()
        checks = [check for check in CHECKS if check not in left_out]
        case.validate_response(response, checks=checks)

    with suppress(Unsatisfiable):  # nothing of it can be wrong
        send()


EXAMPLES = int(os.environ.get("SPARSI_API_EXAMPLES", "1"))


@pytest.fixture(
    scope="module", params=["sqlite"] if EXAMPLES == 1 else ["sqlite", "postgresql"]
)
def house(request, tmp_path_factory):
    with api_house.opened(request, tmp_path_factory.mktemp("api")) as made:
        yield made


def test_the_api_answers_as_it_is_described_whatever_is_asked(house):
    statuses = fuzz(house, EXAMPLES)
    assert statuses[200] > 20
    assert statuses[202] > 5
    assert not statuses[421]
