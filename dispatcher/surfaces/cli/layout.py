"""``dispatcher layout``: draw the boxes of a policy, and see whether they fit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dispatcher.core.errors import EXIT_FINDINGS, Invalid
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli.context import CliContext, leave, wall_clock

if TYPE_CHECKING:
    from dispatcher.operations.layouts import Drawing

app = typer.Typer(
    help="Draw boxes on scans, and see whether they fit.", no_args_is_help=True
)

NAMED: Final = 3
"""Scans that a hint names one by one."""

Scans = Annotated[
    list[Path], typer.Argument(help="Scans of one folder, or the folder.", exists=True)
]
PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", help="The policy file (default: policy.toml)."),
]
TemplateOption = Annotated[
    Path | None,
    typer.Option(
        help="The scan with the boxes (default: the template of the policy, or the first).",
        exists=True,
    ),
]
ColumnOption = Annotated[
    str, typer.Option(help="The column that names the scans, for new fields.")
]
AlignOption = Annotated[
    bool,
    typer.Option(
        "--align/--no-align", help="Align the other scans to the template; or not."
    ),
]


@app.command()
def draw(
    ctx: typer.Context,
    scans: Scans,
    policy: PolicyOption = None,
    template: TemplateOption = None,
    column: ColumnOption = "scan",
    align: AlignOption = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page (default: any).")
    ] = 0,
) -> None:
    """Open a page on this machine to draw boxes on a scan, and name the fields.

    The printed link works once, within ten minutes. Boxes snap to ruled lines and text,
    overlaps are red, and twenty other scans can be stepped through. Save writes into
    the policy file; its comments stay.
    """
    from dispatcher.surfaces.drawing import serve_drawing

    context: CliContext = ctx.obj
    drawing = _drawing(context, scans, policy, template, column, align=align)

    def started(link: str) -> None:
        context.say(
            f"{count(len(drawing.names), 'scan')}; boxes go to {drawing.policy}. Open once, "
            "within ten minutes (Finish on the page or Ctrl-C ends):"
        )
        context.show({"schema": "dispatcher.link/1", "link": link}, link)

    serve_drawing(drawing, clock=wall_clock, port=port, started=started)
    context.say(f"next: {_checks(context, scans, drawing.policy)}")


@app.command()
def check(
    ctx: typer.Context,
    scans: Scans,
    policy: PolicyOption = None,
    template: TemplateOption = None,
    align: AlignOption = True,
) -> None:
    """Cut the policy's boxes out of up to 21 scans, and say where they do not fit.

    Told are scans that do not look like the template, and the ink at the borders of
    boxes: what a crop shows goes on beyond it, or belongs to a neighbour. No value is
    shown; the exit status is 9 if anything was found.
    """
    context: CliContext = ctx.obj
    drawing = _drawing(context, scans, policy, template, "scan", align=align)
    boxes = drawing.boxes()
    if not boxes:
        raise Invalid(
            f"{drawing.policy} has no box that could fit",
            why="boxes stand in [entity.NAME.layout], and nothing is in it",
            fix=f"dispatcher layout draw {_words(scans)}",
        )
    fits = []
    with context.counted() as counted:
        for number in range(len(drawing.names)):
            fits.append(drawing.fit(number, boxes))
            counted.show(len(fits), len(drawing.names), count(len(fits), "scan"))
    rows = [
        (
            fit.scan,
            "set aside" if fit.aside else "ink at a border" if fit.inked else "fits",
            fit.aside or ", ".join(f"{n} {fit.ink[n]:.0%}" for n in fit.inked),
        )
        for fit in fits
    ]
    header = ("scan", "boxes", "why")
    document = {
        "schema": "dispatcher.layout-check/1",
        "scans": [
            {"scan": fit.scan, "aside": fit.aside or None, "ink": dict(fit.ink)}
            for fit in fits
        ],
    }
    context.show(document, context.table(rows, header))
    aside = sum(bool(fit.aside) for fit in fits)
    inked = sum(bool(fit.inked) for fit in fits)
    context.say(
        f"{count(len(fits), 'scan')}, {count(len(boxes), 'box', 'boxes')}: {aside} set "
        f"aside, {inked} with ink at the border of a box"
    )
    if aside or inked:
        leave(EXIT_FINDINGS)


def _checks(context: CliContext, scans: list[Path], policy: Path) -> str:
    """Return the commands that come after drawing, with their arguments."""
    file = shlex.quote(str(policy))
    own = policy == context.directory / "policy.toml"
    named = "" if own else f" --policy {file}"
    return (
        f"dispatcher layout check {_words(scans)}{named}, then: "
        f"dispatcher policy check {file}"
    )


def _words(scans: list[Path]) -> str:
    """Return scans as words of a shell; many of one folder by the folder."""
    folders = dict.fromkeys(one if one.is_dir() else one.parent for one in scans)
    named = scans if len(scans) <= NAMED else [*folders]
    return shlex.join(map(str, named))


def _drawing(
    context: CliContext,
    scans: list[Path],
    policy: Path | None,
    template: Path | None,
    column: str,
    *,
    align: bool,
) -> Drawing:
    from dispatcher.operations.layouts import Drawing, pinned_template, scans_in

    found = scans_in(scans)
    path = policy or context.directory / "policy.toml"
    template = template or pinned_template(path, found)
    if template is not None:
        others = [one for one in found if one.resolve() != template.resolve()]
        found = scans_in([template, *others])
    return Drawing(path, found, column, aligned=align)
