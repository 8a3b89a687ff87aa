"""The operators' console: the state of the work, read only.

==============================  ====================================================
``GET /login``                  asks for name, password and code, or a link; what
                                follows ``#k=`` is posted once and taken out of the
                                address bar
``POST /login``                 ``name``, ``password``, ``totp``; or ``code`` = the
                                link or what follows its ``#k=``; opens the session
``GET /enrol``                  takes a link with which a password is chosen
``POST /enrol``                 ``code``; then ``password`` and ``totp`` too, and
                                ``name`` of the first admin; opens a session
``GET /``                       overview
``GET /workers?page=N``         who was shown how much, and how near to each limit
``GET /rules``                  how near any worker is to each limit
``GET /queue?state=STATE``      messages for connectors
``GET /records?state=&after=``  records by pseudonym and state
``GET /ledger``                 seals
``POST /logout``                ends the session
==============================  ====================================================

No page holds a value of a field, and none changes anything but the session. Whoever is
not signed in gets the sign-in page at every address. A page asks for itself again every
ten seconds (with ``X-Refresh``), which keeps no session alive.
"""

from dispatcher.surfaces.console.app import console_app
from dispatcher.surfaces.console.sessions import ConsoleSettings

__all__ = ["ConsoleSettings", "console_app"]
