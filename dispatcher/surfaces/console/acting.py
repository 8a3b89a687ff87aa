"""From a form to an act: preview, confirmation, the act itself, and what came of it.

The form is sent twice. First (``step=preview``) the operation runs on a store that
undoes its writes; the page shows what is irreversible, then what would change. Then
(``step=act``) it runs for good, once for each key however often it is sent, and leaves
its line in the audit log with the change.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from dispatcher.access import Act, Operator
from dispatcher.core.errors import DispatcherError, NotFound
from dispatcher.store.audit_log import DONE, Denials
from dispatcher.surfaces.api.calls import Call, begin_call
from dispatcher.surfaces.api.problems import ProblemError, UntriableError
from dispatcher.surfaces.console.actions import Action
from dispatcher.surfaces.console.pages import problem_of
from dispatcher.surfaces.console.view import Screen, Site, View
from dispatcher.surfaces.web import read_form

WAITS: Final = 50
PAUSE: Final = 0.1
"""Seconds between two looks whether the same act, sent twice, has ended."""
_KEY_BYTES: Final = 18


@dataclass(frozen=True)
class _Trial(Call):
    """A dry run: what would be worked on later is worked on now."""

    def later(self, returns: type[BaseModel], work: Any) -> Any:  # noqa: ANN401
        """Return what comes of it."""
        return returns.model_validate(work(""), from_attributes=True)


Prove = Callable[[Request, Operator, Mapping[str, str]], Awaitable[bool]]
"""Takes password and code once more, from a form."""


class Acting:
    """Serves the pages of all actions."""

    def __init__(self, site: Site, prove: Prove) -> None:
        self._site = site
        self._prove = prove
        self._denials = Denials()
        self._actions = {action.name: action for action in site.actions}
        self._edits = asyncio.Lock()

    async def ask(self, request: Request, operator: Operator) -> Response:
        """``GET /do/NAME``: the form, filled in by the address."""
        action = self._action(request)
        if not operator.principal.may(action.operation):
            raise HTTPException(403)
        given = _joined(request.query_params.multi_items())
        return await run_in_threadpool(
            self._form, request, operator, action, given, None
        )

    async def act(self, request: Request, operator: Operator) -> Response:
        """``POST /do/NAME``: a preview, or the act."""
        action = self._action(request)
        form = await read_form(request)
        await self.check(operator, action)
        given = {one.name: form.get(one.name, "") for one in action.inputs}
        try:
            if form.get("step") == "edit":
                return await run_in_threadpool(
                    self._form, request, operator, action, given, None
                )
            if form.get("step") != "act":
                return await run_in_threadpool(
                    self._preview, request, operator, action, given
                )
            if action.severe and form.get("typed", "") != action.severe(given):
                return await run_in_threadpool(
                    self._preview, request, operator, action, given, mistyped=True
                )
            asks = operator.must_prove(action.operation, self._site.clock())
            if asks and not await self._prove(request, operator, form):
                return await run_in_threadpool(
                    self._preview, request, operator, action, given, unproven=True
                )
            return await self._once(request, operator, action, given, form)
        except (DispatcherError, ProblemError) as error:
            return await run_in_threadpool(
                self._form, request, operator, action, given, error
            )

    async def check(self, operator: Operator, action: Action) -> None:
        """Refuse whoever may not act, and note it.

        Raises
        ------
        HTTPException
            403
        """
        if not operator.principal.may(action.operation):
            denied = Act(operator.name, "console", action.operation, self._site.clock)
            await run_in_threadpool(
                self._denials.note, self._site.store, denied, self._site.clock()
            )
            raise HTTPException(403)

    # -- the steps ------------------------------------------------------------------------

    def _form(
        self,
        request: Request,
        operator: Operator,
        action: Action,
        given: Mapping[str, str],
        error: Exception | None,
    ) -> Response:
        problem = None if error is None else problem_of(error)
        return self._view(request, operator, action).show(
            template="act_form",
            title=action.title,
            status=200 if problem is None else problem["status"],
            action=action,
            given=given,
            problem=problem,
            key=secrets.token_urlsafe(_KEY_BYTES) if action.at_once else "",
        )

    def _preview(
        self,
        request: Request,
        operator: Operator,
        action: Action,
        given: Mapping[str, str],
        *,
        mistyped: bool = False,
        unproven: bool = False,
    ) -> Response:
        call = self._call(operator, action, given, dry_run=True)
        call, tag = self._looked(call, action, given)
        untried = ""
        try:
            document = _document(action.call(call, given, {}))
        except UntriableError as error:
            document, untried = None, error.detail.partition(": ")[2]
        if not action.route.writes:  # it changes nothing: this is what was asked for
            return self._done(request, operator, action, document, given)
        accepted = {}
        if action.accepts is not None:
            name, count = action.accepts
            accepted[name] = count(document)
        return self._view(request, operator, action).show(
            template="act_preview",
            title=action.title,
            status=422 if mistyped else 403 if unproven else 200,
            action=action,
            given=given,
            document=document,
            untried=untried,
            accepted=accepted,
            typed=action.severe(given) if action.severe else "",
            mistyped=mistyped,
            asks=operator.must_prove(action.operation, self._site.clock()),
            unproven=unproven,
            key=secrets.token_urlsafe(_KEY_BYTES),
            tag=tag,
        )

    async def _once(
        self,
        request: Request,
        operator: Operator,
        action: Action,
        given: Mapping[str, str],
        form: Mapping[str, str],
    ) -> Response:
        """Act, and show what came of it."""
        response = await self.perform(operator, action, given, form)
        return await run_in_threadpool(
            self._result, request, operator, action, response, given
        )

    async def perform(
        self,
        operator: Operator,
        action: Action,
        given: Mapping[str, str],
        form: Mapping[str, str],
    ) -> Response:
        """Act once for a key, however often the form is sent; return the answer as JSON.

        Raises
        ------
        DispatcherError, ProblemError
            It was refused.
        """
        extra = self._accepted(action, form)
        key, tag = form.get("key", ""), form.get("tag", "")
        if not 0 < len(key) <= 100:
            raise HTTPException(400)
        hidden = {one.name for one in action.inputs if one.kind == "secret"}
        open_ = {name: text for name, text in given.items() if name not in hidden}
        asked = json.dumps([action.name, open_, extra, tag], sort_keys=True)
        requests = self._site.shared.requests
        name = f"console {action.act.__name__}"
        digest = sha256(asked.encode()).hexdigest()
        for left in reversed(range(WAITS)):
            try:
                number, before = await run_in_threadpool(
                    requests.begin, operator.name, name, key, digest
                )
                break
            except ProblemError as error:
                if error.status != 409 or not left or "under way" not in error.detail:
                    raise
                await asyncio.sleep(PAUSE)
        if before is not None:
            return before
        call = self._call(operator, action, given, dry_run=False)
        try:
            response = await self._do(call, action, given, extra, tag)
        except BaseException as error:
            after = requests.leave if call.act.lines else requests.drop
            if isinstance(error, DispatcherError):
                call.act.target = ""  # what was typed may be anything
                await run_in_threadpool(call.ended, error.code)
            await run_in_threadpool(after, number)
            raise
        keeps = action.route.keeps
        await run_in_threadpool(requests.end, number, response, keeps=keeps)
        self._site.cache.forget()
        return response

    def reveal(
        self, operator: Operator, action: Action, given: Mapping[str, str]
    ) -> Any:  # noqa: ANN401 - the document of the action
        """Call what shows values and changes nothing; its line is written before."""
        call = self._call(operator, action, given, dry_run=False)
        found = action.call(call, given, {})
        call.ended(DONE)
        return found

    async def _do(
        self,
        call: Call,
        action: Action,
        given: Mapping[str, str],
        extra: Mapping[str, Any],
        tag: str,
    ) -> Response:
        if action.route.guards is None:
            return await run_in_threadpool(self._act, call, action, given, extra)
        async with self._edits:  # nobody edits between the look and the act
            call, now = await run_in_threadpool(self._looked, call, action, given)
            if now != tag:
                raise ProblemError(
                    412,
                    "it was changed since the preview was made",
                    "look at the preview again, then decide",
                )
            return await run_in_threadpool(self._act, call, action, given, extra)

    @staticmethod
    def _act(
        call: Call, action: Action, given: Mapping[str, str], extra: Mapping[str, Any]
    ) -> Response:
        found = action.call(call, given, extra)
        if isinstance(found, Response):
            return found
        call.ended(DONE)
        return JSONResponse(_document(found))

    def _result(
        self,
        request: Request,
        operator: Operator,
        action: Action,
        response: Response,
        given: Mapping[str, str],
    ) -> Response:
        document = json.loads(bytes(response.body))
        if response.status_code == 202:
            return RedirectResponse(f"/operations/{document['id']}", 303)
        return self._done(request, operator, action, document, given)

    def _done(
        self,
        request: Request,
        operator: Operator,
        action: Action,
        document: Any,  # noqa: ANN401 - what JSON can be
        given: Mapping[str, str],
    ) -> Response:
        found = document[0] if isinstance(document, list) and document else document
        names = {**(found if isinstance(found, dict) else {}), **given}
        parts = action.back.split("/")
        known = all(name in names for name in re.findall("{(.*?)}", action.back))
        return self._view(request, operator, action).show(
            template="act_done",
            title=action.title,
            action=action,
            given=given,
            document=document,
            back=action.back.format_map(names) if known else f"/{parts[1]}",
        )

    # -- what they share ------------------------------------------------------------------

    def _action(self, request: Request) -> Action:
        found = self._actions.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return found

    def _view(self, request: Request, operator: Operator, action: Action) -> View:
        part = action.back.split("/")[1].partition("?")[0]
        for one in self._site.screens:
            if one.part_of and one.path.split("/")[1] == part:
                part = one.part_of
                break
        screen = Screen(
            "", "act", action.title, action.operation, _nothing, part_of=part
        )
        return View(self._site, screen, request, operator)

    def _call(
        self,
        operator: Operator,
        action: Action,
        given: Mapping[str, str],
        *,
        dry_run: bool,
    ) -> Call:
        site, reason = self._site, given.get("reason", "")
        target = action.target(given)
        act = Act(
            operator.name, "console", action.operation, site.clock, target, reason
        )
        call = begin_call(
            site.workspace,
            site.store,
            operator.principal,
            act,
            site.shared,
            name=action.act.__name__,
            dry_run=dry_run,
        )
        return _Trial(**vars(call)) if dry_run else call

    @staticmethod
    def _accepted(action: Action, form: Mapping[str, str]) -> dict[str, int]:
        """Read what the preview said that would be accepted."""
        if action.accepts is None:
            return {}
        text = form.get(action.accepts[0], "")
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise HTTPException(400)
        return {action.accepts[0]: int(text)}

    @staticmethod
    def _looked(
        call: Call, action: Action, given: Mapping[str, str]
    ) -> tuple[Call, str]:
        """Look at the resource that is edited: a call that knows it, and its digest."""
        if action.route.guards is None:
            return call, ""
        path = {name: given[name] for name in action.path_names}
        try:
            found, body = action.route.guards.render(call, path)
        except NotFound:  # there is nothing yet
            return call, "none"
        return replace(call, read=found), sha256(body).hexdigest()


def _nothing(_: View) -> Response:
    raise HTTPException(404)


def _document(found: Any) -> Any:  # noqa: ANN401 - what JSON can be
    """Return what an operation answered, as JSON has it."""
    if isinstance(found, BaseModel):
        return found.model_dump(mode="json")
    if isinstance(found, (list, tuple)):
        return [_document(one) for one in found]
    return found


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Read an address; what it names several times stands in lines."""
    found: dict[str, str] = {}
    for name, text in pairs:
        found[name] = f"{found[name]}\n{text}" if name in found else text
    return found
