"""The outermost layer: headers on everything, faults without a word of their cause."""

import anyio
import pytest

from dispatcher.app.guard import MAX_BODY, Guard

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": []}


def call(app, *, https=False, body=(b"",), headers=()):
    """Status, headers and body of one request through the guard."""
    sent: list[dict] = []
    parts = list(body)

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    scope = {**SCOPE, "headers": list(headers)}
    anyio.run(Guard(app, "taskpage", https=https), scope, receive, send)
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:])


async def fine(scope, receive, send):
    headers = [
        (b"Cache-Control", b"public"),
        (b"x-nonce", scope["state"]["nonce"].encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def reads_all(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await fine(scope, receive, send)


async def broken(scope, receive, send):
    raise ValueError("Ada Lovelace has gout")


async def leaving(scope, receive, send):
    raise SystemExit("Ada Lovelace has gout")


def test_every_response_has_the_safe_headers_and_they_win():
    status, headers, body = call(fine)
    assert (status, body) == (200, b"ok")
    assert headers["cache-control"] == "no-store"
    assert "Cache-Control" not in headers
    assert headers["referrer-policy"] == "no-referrer"
    assert (
        f"script-src 'nonce-{headers['x-nonce']}'" in headers["content-security-policy"]
    )
    assert "strict-transport-security" not in headers


def test_a_nonce_is_of_one_response():
    nonces = {call(fine)[1]["x-nonce"] for _ in range(20)}
    assert len(nonces) == 20
    assert all(len(nonce) >= 22 for nonce in nonces)  # 128 bits in base64


def test_safety_16_over_tls_the_browser_is_told_to_stay_there():
    assert "max-age=31536000" in call(fine, https=True)[1]["strict-transport-security"]


@pytest.mark.parametrize(
    ("app", "fault"), [(broken, "ValueError"), (leaving, "SystemExit")]
)
def test_safety_30_a_fault_is_answered_and_says_nothing_of_its_cause(
    capsys, app, fault
):
    status, headers, body = call(app)
    assert status == 500
    assert headers["cache-control"] == "no-store"
    out = capsys.readouterr()
    assert "Ada Lovelace" not in body.decode() + out.out + out.err
    assert fault in out.out + out.err


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([(b"content-length", str(MAX_BODY + 1).encode())], (b"",)),
        ([], (b"x" * MAX_BODY, b"x")),
        ([(b"content-length", b"1")], (b"x" * (MAX_BODY + 1),)),
    ],
)
def test_a_body_that_is_too_long_is_refused(headers, body):
    assert call(reads_all, headers=headers, body=body)[0] == 413


def test_a_body_at_the_limit_passes():
    assert call(reads_all, body=(b"x" * MAX_BODY,))[0] == 200
