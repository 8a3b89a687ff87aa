"""Amazon clients whose calls go through our own guarded HTTP client.

boto3 signs and parses; :class:`connectors.http.client.Http` resolves the name, connects
to the address that was checked, and bounds time and size. Retries are up to the caller.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from connectors.errors import Misconfigured
from connectors.http.client import Http

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

_TEXT: Final = "latin-1"


class AwsClient(Protocol):
    """A boto3 client: one method for each operation of the service."""

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        """Return an operation."""


def make_client(
    service: str,
    http: Http,
    *,
    extra: str,
    endpoint: str,
    region: str,
    key_id: str,
    key: str,
    style: str = "auto",
) -> AwsClient:
    """Return a client; uses no network.

    Parameters
    ----------
    service : str
        Its name in boto3.
    http : Http
        Sends every call.
    extra : str
        The extra of our package that installs boto3.
    endpoint : str
        URL of the service.
    region : str
        Region for which calls are signed.
    key_id, key : str
        The access key.
    style : str
        S3 only: whether the bucket is in the host name (``virtual``) or the ``path``.

    Raises
    ------
    Misconfigured
        If the endpoint must not be called, or boto3 is not installed.
    """
    http.check(endpoint)
    try:
        from boto3.session import Session  # noqa: PLC0415 (an extra)
        from botocore.awsrequest import AWSResponse, HeadersDict  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
    except ImportError as error:
        raise Misconfigured(
            f"{extra} needs the library boto3",
            fix=f"pip install 'sparsi-dispatcher[{extra}]'",
        ) from error

    def send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        answered = http.call(
            request.method,
            request.url,
            headers={name: _text(value) for name, value in request.headers.items()},
            body=_bytes(request.body),
        )
        headers = HeadersDict(answered.headers)
        return AWSResponse(request.url, answered.status, headers, _Raw(answered.body))

    session = Session(
        aws_access_key_id=key_id,
        aws_secret_access_key=key,
        region_name=region,
        botocore_session=_session(),
    )
    once = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": style},
        # else the body of a call by TLS is wrapped into chunks with a trailer
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client = session.client(service, endpoint_url=endpoint, config=once)
    client.meta.events.register(f"before-send.{service}", send)
    return cast("AwsClient", client)


def _session() -> object:
    """Return a botocore session that loads its descriptions of services once."""
    from botocore.session import Session  # noqa: PLC0415 (an extra)

    session = Session()
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> object:
    from botocore.loaders import create_loader  # noqa: PLC0415 (an extra)

    return create_loader()


class _Raw(io.BytesIO):
    """A body that was read already, in the form that botocore expects."""

    def stream(self, **_: object) -> Iterator[bytes]:
        """Yield it at once."""
        yield self.read()


def _bytes(body: Any) -> bytes:  # noqa: ANN401 (botocore's)
    """Return a body in any of botocore's forms as bytes."""
    whole = body.read() if hasattr(body, "read") else body or b""
    return whole.encode() if isinstance(whole, str) else bytes(whole)


def _text(value: str | bytes) -> str:
    return value.decode(_TEXT) if isinstance(value, bytes) else str(value)
