"""A server that speaks S3 on the loopback, and what lies in its buckets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from moto.server import ThreadedMotoServer

SECRET = b"AKIATEST\nk3y-0f-th3-t3st"


@contextmanager
def bucket_server(*buckets: str) -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for bucket in buckets or ("acme-data",):
        client(url).create_bucket(Bucket=bucket)
    try:
        yield url
    finally:
        server.stop()


def client(url: str):
    return boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1",
        aws_access_key_id="AKIATEST", aws_secret_access_key="k3y-0f-th3-t3st",
    )  # fmt: skip


def objects(url: str, bucket: str, prefix: str = "") -> dict[str, bytes]:
    s3 = client(url)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    names = [one["Key"] for page in pages for one in page.get("Contents", ())]
    return {
        name: s3.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names
    }
