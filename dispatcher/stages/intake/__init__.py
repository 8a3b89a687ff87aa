"""Intake: a file becomes records and entries, each row exactly or refused.

A file is opened as a table of text cells (:func:`open_table`), looked at
(:mod:`~dispatcher.stages.intake.preview`) or loaded (:func:`load`); the daemon loads
what comes into a folder (:class:`Inbox`).
"""

from dispatcher.stages.intake.inbox import Inbox
from dispatcher.stages.intake.loading import Loaded, Progress, load
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options

__all__ = ["Inbox", "Loaded", "Options", "Progress", "load", "open_table"]
