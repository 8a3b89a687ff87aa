"""Forms that browsers send: read within bounds, and told whether they are our own."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

_MAX_FIELDS: Final = 2_000


async def read_form(request: Request) -> dict[str, str]:
    """Text fields of a form; what is no text is left out.

    Raises
    ------
    HTTPException
        400: it is no form, or has too many fields.
    """
    async with request.form(max_files=0, max_fields=_MAX_FIELDS) as form:
        return {name: text for name, text in form.items() if isinstance(text, str)}


def own_page(request: Request) -> bool | None:
    """Whether a page of ours sent the request; None where the browser does not say.

    Another port of the same machine is another page (``same-site``).
    """
    site = request.headers.get("sec-fetch-site")
    return None if site is None else site == "same-origin"
