"""Every code that the reader can raise has a page, and the pages in docs are those."""

import re
from pathlib import Path

import pytest

from policies.document import CODES, explain_rule

PAGES = Path("docs/reference/policy-rules")


def test_every_code_in_the_source_has_a_page_and_every_page_a_code():
    source = "".join(
        path.read_text()
        for path in Path("policies/document").glob("*.py")
        if path.name != "codes.py"
    )
    assert set(re.findall(r'"(POL\d{3})"', source)) == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_the_page_in_the_docs_is_what_policy_rule_prints(code):
    """To mend: dispatcher explain CODE > docs/reference/policy-rules/CODE.md."""
    page = explain_rule(code)
    assert page.startswith(f"# {code}: ")
    assert (PAGES / f"{code}.md").read_text() == page


def test_no_page_is_left_over():
    assert {p.stem for p in PAGES.glob("POL*.md")} == set(CODES)


def test_an_unknown_code_has_no_page():
    with pytest.raises(KeyError):
        explain_rule("POL999")
