"""People who operate: users, sessions, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from dispatcher.surfaces.api.documents.base import Document, Moment, Name, Request


class User(Document):
    """A user and their roles; ``signs_in_by``: password, provider, or nothing yet."""

    name: str
    roles: Sequence[str]
    state: str
    made_at: Moment
    signs_in_by: str


class Roles(Request):
    """The roles of a user, and no others."""

    roles: Annotated[list[Name], Field(min_length=1, max_length=20)]


class AddUser(Roles):
    """A new user."""

    name: Name


class Enrolment(Document):
    """The link with which a user chooses a password, within a day; shown this once."""

    name: str
    link: str


class Session(Document):
    """A session of the console; its id ends it, and opens nothing."""

    id: str
    user: str
    opened_at: Moment
    seen_at: Moment


class Token(Document):
    """A token by its first characters."""

    id: int
    name: str
    prefix: str
    user: str | None
    scopes: Sequence[str]
    state: str
    made_at: Moment
    ends_at: Moment
    used_at: Moment | None


class MakeToken(Request):
    """What a token is for, what it may do, and for how many days."""

    name: Name
    scopes: Annotated[list[Name], Field(min_length=1, max_length=100)]
    days: Annotated[int, Field(ge=1, le=366)] = 30
    user: Name | None = None


class NewToken(Document):
    """A token that was made; the secret is kept nowhere."""

    id: int
    token: str = Field(validation_alias="secret")
    prefix: str
    ends_at: Moment
