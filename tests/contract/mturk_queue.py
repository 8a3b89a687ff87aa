"""A queue of moto's SQS over real HTTP, that the emulated MTurk tells its events to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from tests.contract.mturk_server import KEY, KEY_ID


@dataclass
class Queue:
    url: str
    client: Any
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def send(self, _: str, body: str) -> None:
        self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def another(self) -> Queue:
        """A queue of its own at the same server."""
        name = f"mturk-{next(self.numbers)}"
        made = self.client.create_queue(QueueName=name)
        return Queue(made["QueueUrl"], self.client, self.numbers)

    def count(self) -> int:
        told = self.client.get_queue_attributes(
            QueueUrl=self.url, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(told["Attributes"]["ApproximateNumberOfMessages"])


@contextmanager
def queue_server() -> Iterator[Queue]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "sqs", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
        aws_access_key_id=KEY_ID, aws_secret_access_key=KEY,
    )  # fmt: skip
    try:
        url = client.create_queue(QueueName="mturk")["QueueUrl"]
        yield Queue(url, client)
    finally:
        client.close()
        server.stop()
