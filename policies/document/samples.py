"""The example policies of the package, and whether a policy file is one of them."""

from __future__ import annotations

from codecs import BOM_UTF8
from importlib.resources import files

_SAMPLES = files("policies.document") / "examples"


def sample_text(name: str) -> str:
    """Text of an example policy, from the installed package."""
    return (_SAMPLES / f"{name}.toml").read_text(encoding="utf-8")


def is_sample(source: bytes) -> bool:
    """Whether a policy file is an example of the package, comments left out."""
    lines = _lines(source)
    return any(_lines(path.read_bytes()) == lines for path in _SAMPLES.iterdir())


def _lines(source: bytes) -> list[bytes]:
    stripped = (line.strip() for line in source.removeprefix(BOM_UTF8).splitlines())
    return [line for line in stripped if line and not line.startswith(b"#")]
