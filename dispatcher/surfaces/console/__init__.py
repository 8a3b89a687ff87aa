"""The operators' console: what the work looks like, and what is to be done about it.

==============================  ====================================================
``GET /login``                  asks for name, password and code, or a link; what
                                follows ``#k=`` is posted once and taken out of the
                                address bar
``POST /login``                 ``name``, ``password``, ``totp``; or ``code`` = the
                                link or what follows its ``#k=``; opens the session
``GET /enrol``                  takes a link with which a password is chosen
``POST /enrol``                 ``code``; then ``password`` and ``totp`` too, and
                                ``name`` of the first admin; opens a session
screens                         the literal table :data:`.screens.SCREENS`; any of
                                their tables as a file: ``?format=csv`` or ``json``
``GET /do/NAME``                the form of an action: :data:`.actions.ACTIONS`
``POST /do/NAME``               ``step=preview``: what it would do, with nothing
                                changed; ``step=act`` and a ``key``: it is done, once
``POST /answers/judge``         decides a conflict and shows the next: :mod:`.judging`
``GET /live``                   server-sent events: ``moved``, when a page has
                                something new to fetch
``POST /logout``                ends the session
==============================  ====================================================

No list holds a value of a field. Whoever is not signed in gets the sign-in page at every
address; whoever is sees the screens and actions of their roles. A page fetches itself
again when it is told that the store has moved (with ``X-Refresh``), which keeps no
session alive. How a screen, a table or an action is added: docs/howto/console.md.
"""

from dispatcher.surfaces.console.app import console_app
from dispatcher.surfaces.console.sessions import ConsoleSettings

__all__ = ["ConsoleSettings", "console_app"]
