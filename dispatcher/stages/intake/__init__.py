"""Intake: turn a file into records and entries; each row is exact or rejected.

A file is opened as a table of text cells (:func:`open_table`), previewed
(:mod:`~dispatcher.stages.intake.preview`) or loaded (:func:`load`); the daemon loads
the files of a folder (:class:`Inbox`).
"""

from dispatcher.stages.intake.inbox import Inbox
from dispatcher.stages.intake.loading import Loaded, Progress, load
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options

__all__ = ["Inbox", "Loaded", "Options", "Progress", "load", "open_table"]
