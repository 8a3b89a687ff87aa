"""An example of the package is known as one until something in it is changed."""

from importlib.resources import files

import pytest

from policies.document.samples import is_sample, sample_text

EXAMPLES = files("policies.document") / "examples"


@pytest.mark.parametrize(
    "name", sorted(path.name.removesuffix(".toml") for path in EXAMPLES.iterdir())
)
def test_an_untouched_example_is_a_sample_whatever_its_comments_and_line_ends(name):
    text = sample_text(name)
    assert is_sample(text.encode())
    assert is_sample(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert is_sample(f"# ours now\n\n{text}".encode())


def test_a_changed_example_is_ones_own():
    text = sample_text("prescriptions")
    changed = text.replace("tau", "lambda", 1)
    assert changed != text
    assert not is_sample(changed.encode())
