"""Diagnostics as text: the full layout to the letter, the others by their parsers."""

import json
from pathlib import Path

import pytest

from policies.document import FORMATS, parse, render, render_files, summary

BAD = Path("tests/data/policies/bad")


def rendered(name: str, format: str = "full") -> str:
    result = parse((BAD / name).read_bytes(), f"bad/{name}")
    return render(result.diagnostics, result.text, result.filename, format)


def test_the_full_layout_shows_the_line_the_mark_the_reason_and_the_cure():
    assert (
        rendered("5_tau.toml")
        == """\
error[POL201]: tau = 0.0 can never be met by `who-said-what`
 --> bad/5_tau.toml:5:7
  |
5 | tau = 0.0
  |       ^^^
  = why: the rule is strict, f < tau, and f is never below 0
  = fix: write tau = 1.0 to mean "never the whole set"
"""
    )


def test_a_mark_past_the_end_of_the_line_is_still_drawn():
    assert '5 | key = "rx_id\n  |             ^\n' in rendered("1_syntax.toml")


def test_the_gutter_is_as_wide_as_the_line_number():
    assert "\n  --> bad/2_many.toml:14:1\n   |\n14 | rx_id" in rendered("2_many.toml")


def test_a_blank_line_parts_two_diagnostics():
    assert rendered("3_math.toml").count("\n\nerror[") == 4


def test_controls_are_escaped_and_long_lines_cut_around_the_mark():
    text = 'version = 1\nname = "' + "x" * 500 + '\\u001b", wrong\n'
    raw = (
        f'version = 1\nname = "{"n" * 500}"\n# \t{"c" * 300}\nentity = "\u202e' + '"\n'
    ).encode()
    for data in (text.encode(), raw):
        result = parse(data, "a\x1bb.toml")
        out = render(result.diagnostics, result.text, result.filename)
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert max(map(len, out.split("\n"))) < 300


def test_concise_is_one_line_a_diagnostic():
    lines = rendered("2_many.toml", "concise").splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("bad/2_many.toml:7:1: error[POL205] `lambda`")


def test_json_has_all_parts_of_every_diagnostic():
    document = json.loads(rendered("4_tradeoff.toml", "json"))
    assert next(iter(document)) == "schema"
    assert (document["errors"], document["warnings"]) == (1, 1)
    first = document["diagnostics"][0]
    assert (first["code"], first["line"], first["column"], first["mark"]) == ("POL308", 8, 13, 4)  # fmt: skip
    assert first["why"]
    assert first["fix"]


def test_github_commands_escape_what_would_end_them():
    line = rendered("3_math.toml", "github").splitlines()[0]
    assert line.startswith(
        "::error title=dispatcher (POL203),file=bad/3_math.toml,line=16,"
    )
    tricky = render(parse(b"x = 1\ny").diagnostics, "", "a,b:c%.toml", "github")
    assert "file=a%2Cb%3Ac%25.toml" in tricky


def test_sarif_names_each_rule_once_and_points_at_it():
    run = json.loads(rendered("3_math.toml", "sarif"))["runs"][0]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert rules == sorted(set(rules))
    assert [rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"]] == [True] * 5
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 16, "startColumn": 1, "endLine": 16, "endColumn": 3}


def test_several_files_make_one_document():
    files = []
    for name in ("1_syntax.toml", "5_tau.toml"):
        result = parse((BAD / name).read_bytes(), name)
        files.append((name, result.text, result.diagnostics))
    rows = json.loads(render_files(files, "json"))["diagnostics"]
    assert [r["filename"] for r in rows] == ["1_syntax.toml", "5_tau.toml"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_takes_every_bad_file_and_none_at_all(format):
    for path in BAD.glob("*.toml"):
        assert rendered(path.name, format).endswith("\n")
    assert isinstance(render((), "", "x.toml", format), str)


def test_an_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="expected one of full, concise, json"):
        render((), "", "x", "yaml")


def test_the_summary_counts_in_words():
    result = parse((BAD / "4_tradeoff.toml").read_bytes())
    assert summary("p.toml", result.diagnostics) == "p.toml: 1 error, 1 warning"
    assert summary("p.toml", ()) == "p.toml: 0 errors, 0 warnings"
