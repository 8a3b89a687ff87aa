"""Modules of texts, for one commit beside those of statements."""

from tests.integration.old_work import assembly, burning, collecting, sending, serving

__all__ = ["assembly", "burning", "collecting", "sending", "serving"]
