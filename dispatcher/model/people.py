"""Who may act on a store, and what they did."""

from sqlalchemy import CheckConstraint, Column, Index, String, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, word


class AppUser(SQLModel, table=True):
    """A person who signs in; never deleted, so that the audit log names nobody else.

    ``roles`` are separated by spaces. ``password`` is argon2id's own text, ``totp`` the
    secret of the second factor, sealed; both are NULL until the person chose them.
    ``totp_step`` is the last time step whose code was used: no code works twice.
    ``identity`` is the digest of issuer and subject where an OpenID provider signs the
    person in; then there is no password.
    """

    __tablename__ = "app_user"
    __table_args__ = (UniqueConstraint("name"), UniqueConstraint("identity"))
    id: int = Field(sa_column=number())
    name: str = Field(sa_column=word(120))
    roles: str = Field(sa_column=Column(Text, nullable=False))
    password: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    totp: bytes | None = Field(default=None, sa_column=content(null=True))
    totp_step: int = Field(default=0, sa_column=big())
    identity: str | None = Field(default=None, sa_column=word(64, null=True))
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    made_at: int = Field(sa_column=big())
    disabled_at: int | None = Field(default=None, sa_column=big(null=True))


class ApiToken(SQLModel, table=True):
    """A token of the API; only its digest is kept.

    ``user_id`` is whose it is: it may never do what that user may not. NULL: it was made
    by a command, for a machine. ``prefix`` are its first characters, to tell it by.
    """

    __tablename__ = "api_token"
    __table_args__ = (UniqueConstraint("digest"),)
    id: int = Field(sa_column=number())
    name: str = Field(sa_column=word(120))
    digest: str = Field(sa_column=word(64))
    prefix: str = Field(sa_column=word(20))
    user_id: int | None = Field(
        default=None, sa_column=big(null=True, of="app_user.id")
    )
    scopes: str = Field(sa_column=Column(Text, nullable=False))
    made_at: int = Field(sa_column=big())
    ends_at: int = Field(sa_column=big())
    used_at: int | None = Field(default=None, sa_column=big(null=True))
    revoked_at: int | None = Field(default=None, sa_column=big(null=True))


class AuditLine(SQLModel, table=True):
    """One act of a person or a token, append-only (triggers refuse update and delete).

    Lines form one chain: ``hash`` is the raw SHA-256 of the hash before and the line in
    canonical form. ``target`` is a name without a value: records and people stand there
    by their pseudonyms. ``outcome`` is ``done`` or the code of an error.
    """

    __tablename__ = "audit_line"
    __table_args__ = (
        CheckConstraint("seq >= 1", name="seq"),
        Index(None, "actor"),
        Index(None, "operation"),
    )
    seq: int = Field(sa_column=number())
    at: int = Field(sa_column=big())
    actor: str = Field(sa_column=word(140))
    surface: str = Field(sa_column=word(12))
    operation: str = Field(sa_column=Column(String(60), nullable=False))
    target: str = Field(sa_column=Column(Text, nullable=False))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    outcome: str = Field(sa_column=word(12))
    hash: bytes = Field(sa_column=content())
