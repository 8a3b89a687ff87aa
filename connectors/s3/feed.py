"""Put items into a bucket as one object, unless it is there already."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn, Protocol, cast

from connectors.base import (
    ConnectorError,
    Handle,
    Identity,
    Limits,
    Manifest,
    Misconfigured,
    Offer,
    Rejected,
    Settings,
    TryLater,
    feed_manifest,
)
from connectors.formats.feed_files import MEDIA_TYPES, check_format, file_name, written
from connectors.http.aws import make_client
from connectors.http.client import Http

MANIFEST = feed_manifest(
    name="s3",
    identity=Identity.LOGIN,
    limits=Limits(items=10_000),
    tested_against="moto's S3 over real HTTP: contract-true, not live",
)

_SECONDS: Final = 120.0  # an object may be large
_DENIED: Final = (401, 403)
_TAKEN: Final = 412
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SETTINGS: Final = (
    "bucket", "prefix", "format", "guard", "endpoint", "region", "allow_private",
)  # fmt: skip


class Objects(Protocol):
    """The part of botocore's ``s3`` client that is used."""

    def put_object(self, **arguments: object) -> object:
        """Put one object."""

    def head_object(self, **arguments: object) -> object:
        """Return the metadata of one object."""


class S3Feed:
    """One bucket, or one prefix of it.

    Parameters
    ----------
    client : Objects
    bucket : str
    prefix : str
        Prefix of every object's name.
    form : str
        One of :data:`connectors.formats.feed_files.FORMATS`.
    guarded : bool
        Whether cells of CSV are guarded against formulas.
    close : callable
        Closes the client's connections.
    """

    def __init__(
        self,
        client: Objects,
        bucket: str,
        prefix: str,
        form: str,
        *,
        guarded: bool,
        close: Callable[[], None],
    ) -> None:
        self._client = client
        self.close = close
        self._bucket = bucket
        self._prefix = prefix
        self._form = form
        self._guarded = guarded

    @property
    def manifest(self) -> Manifest:
        """A feed that stores an object once, and can be searched for it."""
        return MANIFEST

    def send(self, offer: Offer) -> Handle:
        """Put the object; an existing one is the desired result."""
        MANIFEST.check(offer)
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._name(offer.key),
                Body=written(offer.items, self._form, guarded=self._guarded),
                ContentType=MEDIA_TYPES[self._form],
                IfNoneMatch="*",
            )
        except Exception as error:  # noqa: BLE001 (classed by _raise)
            if _status(error) != _TAKEN:
                self._raise(error)
        return self._handle(offer.key)

    def find(self, key: str) -> Handle | None:
        """Look for the object with this key."""
        try:
            self._client.head_object(Bucket=self._bucket, Key=self._name(key))
        except Exception as error:  # noqa: BLE001 (classed by _raise)
            if _status(error) == 404:
                return None
            self._raise(error)
        return self._handle(key)

    def _name(self, key: str) -> str:
        return self._prefix + file_name(key, self._form)

    def _handle(self, key: str) -> Handle:
        return Handle(key, f"s3://{self._bucket}/{self._name(key)}")

    def _raise(self, error: Exception) -> NoReturn:
        """Raise the connector error that fits, without the library's message."""
        if isinstance(error, ConnectorError):
            raise error
        status = _status(error)
        if status is None:
            raise TryLater(
                "the bucket's server gave no answer",
                why=type(error).__name__,
                fix="it is tried again later",
            ) from None
        what = f"the bucket's server answers {status}"
        if status in _DENIED or 300 <= status < 400 or status == 404:
            raise Misconfigured(
                what,
                why="the key, the bucket or the region is not right",
                fix="correct the connector's settings; the key may put and head objects",
            ) from None
        if status >= 500 or status in (408, 409, 429):
            raise TryLater(what, fix="it is tried again later") from None
        raise Rejected(what, why="it does not take this object") from None


def _status(error: Exception) -> int | None:
    """Return the HTTP status in an error of botocore."""
    answer = getattr(error, "response", None)
    found = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    status = found.get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def open_s3(settings: Settings) -> S3Feed:
    """Open the bucket in the settings; uses no network."""
    values = settings.of("s3", _SETTINGS, ("bucket",))
    form, guarded = values.get("format", "csv"), values.get("guard", "yes")
    check_format(form, guarded)
    bucket, prefix = values["bucket"], values.get("prefix", "")
    if not _BUCKET.fullmatch(bucket):
        raise Misconfigured(
            "the bucket's name is none", fix="3 to 63 of a-z, 0-9, - and ."
        )
    if len(prefix) > 500 or not prefix.isascii() or not prefix.isprintable():
        raise Misconfigured("the prefix is none", fix="at most 500 ASCII characters")
    http = Http(private=settings.private, seconds=_SECONDS)
    client = _client(settings, http)
    return S3Feed(
        client, bucket, prefix, form, guarded=guarded == "yes", close=http.close
    )


def _client(settings: Settings, http: Http) -> Objects:
    lines = settings.secret.decode("ascii", "replace").split()
    if len(lines) != 2:
        raise Misconfigured(
            "the secret of s3 is none",
            why="it is two lines: the access key's id and the secret key",
            fix="write them into the secret_file",
        )
    endpoint = settings.values.get("endpoint")
    region = settings.values.get("region", "us-east-1")
    if not _REGION.fullmatch(region):  # it becomes part of the host's name
        raise Misconfigured("the region is none", fix="a name such as eu-west-1")
    client = make_client(
        "s3",
        http,
        extra="s3",
        endpoint=endpoint or f"https://s3.{region}.amazonaws.com",
        region=region,
        key_id=lines[0],
        key=lines[1],
        style="path" if endpoint else "virtual",
    )
    return cast("Objects", client)
