"""The webhook feed: signed HTTP messages to one receiver (Standard Webhooks).

Settings: ``url`` (required, https), ``payload`` (``full``, the default, or ``thin``),
``fetch`` (thin only: where the receiver fetches content), ``allow_private`` (hosts of
the own network that may be reached, separated by commas). Secret: one or more
``whsec_`` secrets, one a line. Each message is signed with all of them, so a secret is
rotated by adding the new one, informing the receiver, and removing the old one.

A message is one JSON object::

    {
        "type": "fields.shared",
        "data": {
            "items": [
                {
                    "token": "...",
                    "field": "place",
                    "media_type": "text/plain",
                    "text": "...",
                },
                {
                    "token": "...",
                    "field": "photo",
                    "media_type": "image/png",
                    "base64": "...",
                },
            ]
        },
    }

A thin message (``"type": "fields.announced"``) has ``token``, ``field`` and ``media_type``
of each item and, as ``data.fetch``, where its receiver requests the rest: see
:mod:`connectors.webhook.feed`.

The receiver must treat a repeated ``webhook-id`` as the same message: after a time-out
it is sent again under the same id. What was sent counts as seen for ever.
"""

from connectors.base import Plugin
from connectors.webhook.feed import MANIFEST, WebhookFeed, open_webhook

__all__ = ["CONNECTOR", "WebhookFeed"]

CONNECTOR = Plugin(MANIFEST, open_webhook)
