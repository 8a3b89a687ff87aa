"""Intake: turn a file into records and entries; each row is exact or rejected.

A file is opened as a table of text cells (:func:`~dispatcher.stages.intake.opening.open_table`),
previewed (:mod:`~dispatcher.stages.intake.preview`) or loaded
(:func:`~dispatcher.stages.intake.loading.load`); the daemon loads the files of a folder
(:class:`~dispatcher.stages.intake.inbox.Inbox`). Nothing is imported here: readers of files
are heavy, and most commands open none.
"""
