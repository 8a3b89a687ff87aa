"""Who may come in, and what they may do.

:mod:`.roles` has the table of operations, scopes and roles; :mod:`.users` signs people
in by password and second factor, :mod:`.provider_sign_in` by an OpenID provider
(:mod:`.oidc`); :mod:`.sessions` keeps them signed in; :mod:`.tokens` lets programs in. What somebody did stands in the audit chain
(:mod:`dispatcher.store.audit_log`).
"""

from dispatcher.access.roles import OPERATIONS, ROLES, Principal, allowed
from dispatcher.access.sessions import (
    Operator,
    authenticate_session,
    make_link,
    sign_everybody_out,
    sign_in_by_link,
    sign_in_link,
    sign_out,
)
from dispatcher.access.tokens import authenticate_token, make_token
from dispatcher.access.users import Attempts, Passwords, enrol, prove, sign_in
from dispatcher.store.audit_log import Act

__all__ = [
    "OPERATIONS",
    "ROLES",
    "Act",
    "Attempts",
    "Operator",
    "Passwords",
    "Principal",
    "allowed",
    "authenticate_session",
    "authenticate_token",
    "enrol",
    "make_link",
    "make_token",
    "prove",
    "sign_everybody_out",
    "sign_in",
    "sign_in_by_link",
    "sign_in_link",
    "sign_out",
]
