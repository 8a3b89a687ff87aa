"""The worker task page: one field at a time, shown only after *Start*.

It works without scripts; a program that fills in forms as a browser would can work here.
What such a program may rely on:

==============================  ====================================================
``GET /``                       the arrival form, or *Start*, or *Continue*
``POST /arrive``                ``invite`` (the link or its code); sets the session
``POST /same``                  ``person`` = ``same``: the accounts of this browser are
                                one person's (asked where a shared browser merges)
``GET /whose``                  asked where another worker is signed in already
``POST /whose``                 ``go_on`` = ``first`` or ``other``: who stays signed in
``GET /from/CONNECTOR``         what a market sends along with a worker: a form for
                                ``/arrive``, again while the market has to confirm
``GET /from/CONNECTOR/notice``  what a market shows in its frame: the way here and back
``POST /hooks/CONNECTOR``       a market's signed call
``POST /start``                 the task page, or the page "nothing for you"
``POST /task/TOKEN/answer``     ``answer`` (or ``cell-ROW-COLUMN`` for tables, from 0),
                                ``outcome`` = ``answered``, ``illegible`` or
                                ``not_present``; ``then`` = ``next`` or ``stop``
``POST /task/TOKEN/undo``       takes the answer back, for some seconds
``POST /task/TOKEN/return``     hands the task back ("skip")
``POST /task/TOKEN/known``      "I know this person"
``POST /task/TOKEN/extend``     more time
``POST /task/TOKEN/draft``      keeps what was typed; 204
``GET /crop/ID``                the image of the task page that named it
``GET /task/TOKEN``             *Continue*, never the task itself
``POST /language``              ``language``: a code; the page speaks it from then on
``GET /practice``               made-up parts that teach the keys; nothing is counted
``POST /practice/STEP``         an answer to one of them
``POST /leave``                 ends the session
``GET /me``                     the worker's own work: counts, pay, tests; no value
``POST /me/leave``              ``sure`` = ``yes``: ends the account for good
==============================  ====================================================

Every form has the hidden field ``form_token``; it is needed where no ``Sec-Fetch-Site``
header comes. The element with ``data-page`` tells the page: ``arrive``, ``same``, ``whose``,
``bring``, ``wait``, ``notice``, ``ready``, ``task``, ``nothing``, ``me`` or ``message``. On a task page ``form#task`` has ``data-token``,
the image is ``img#crop`` and a text ``#text``; ``#error`` says what is wrong with an answer.

An invite link is ``BASE/#k=CODE``, for workers of another connector than ``inhouse``
``BASE/#k=CONNECTOR~CODE`` (:mod:`dispatcher.identity`): what follows ``#`` never reaches a server's log
or another site, the page posts it once and takes it out of the address bar.
"""

from dispatcher.surfaces.taskpage.app import task_app
from dispatcher.surfaces.taskpage.sessions import PageSettings

__all__ = ["PageSettings", "task_app"]
