"""Calls to MTurk checked by botocore's own description of the service.

``botocore.validate`` looks at types and required members only; patterns, lengths and
enumerations stand in the same description and are checked here. That MTurk takes no
characters beyond U+FFFF stands nowhere, and is known from reports.
"""

from __future__ import annotations

import datetime
import hmac
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator

MODEL = botocore.session.get_session().get_service_model("mturk")
_TYPES = {"string": str, "boolean": bool, "integer": int, "long": int,
          "list": list, "structure": dict}  # fmt: skip


def operation(target: str) -> OperationModel | None:
    """The operation of a ``x-amz-target`` header."""
    prefix, _, name = target.partition(".")
    known = prefix == MODEL.metadata["targetPrefix"] and name in MODEL.operation_names
    return MODEL.operation_model(name) if known else None


def faults(shape: Shape, value: Any, place: str = "") -> Iterator[str]:
    """What is wrong with a value of JSON, by the description."""
    kind = shape.type_name
    if kind == "timestamp":
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{place} is no timestamp"
        return
    if not isinstance(value, _TYPES[kind]) or (
        kind in ("integer", "long") and isinstance(value, bool)
    ):
        yield f"{place} is no {kind}"
    elif kind == "structure":
        yield from _members(shape, value, place)
    elif kind == "list":
        for one in value:
            yield from faults(shape.member, one, f"{place}[]")
    elif kind == "string":
        yield from _text(shape, value, place)


def _members(shape: Any, value: Mapping[str, Any], place: str) -> Iterator[str]:
    for name in shape.required_members:
        if name not in value:
            yield f"{place}.{name} is missing"
    for name, one in value.items():
        if name not in shape.members:
            yield f"{place}.{name} is unknown"
        else:
            yield from faults(shape.members[name], one, f"{place}.{name}")


def _text(shape: Any, value: str, place: str) -> Iterator[str]:
    told = shape.metadata
    if shape.enum and value not in shape.enum:
        yield f"{place} is none of its values"
    if "pattern" in told and not re.search(told["pattern"], value):
        yield f"{place} does not fit its pattern"
    if not told.get("min", 0) <= len(value) <= told.get("max", len(value)):
        yield f"{place} has a wrong length"
    if value and max(value) > "\uffff":
        yield f"{place} has a character of four bytes"


def check_output(model: OperationModel, told: Mapping[str, Any]) -> None:
    """An emulator that answers otherwise than MTurk can is wrong itself."""
    plain = {} if model.output_shape is None else told
    if model.output_shape is not None:
        report = ParamValidator().validate(plain, model.output_shape)
        assert not report.has_errors(), report.generate_report()
        unknown = set(told) - set(model.output_shape.members)
        assert not unknown, unknown


def as_json(value: Any) -> Any:
    """Moments as MTurk sends them: seconds since 1970."""
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return value


def signed_by(
    key_id: str, key: str, url: str, headers: Mapping[str, str], body: bytes
) -> bool:
    """Whether a call bears the signature of a key, computed anew by botocore."""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request, "
        r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
        headers.get("authorization", ""),
    )
    if found is None or found[1] != key_id:
        return False
    signed = {name: headers[name] for name in found[4].split(";") if name in headers}
    request = AWSRequest("POST", url, headers=signed, data=body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(key_id, key), found[3], found[2])
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return hmac.compare_digest(auth.signature(text, request), found[5])
