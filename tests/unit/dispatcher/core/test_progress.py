"""Work reports how far it is to whoever listens, and costs nothing where nobody does."""

from dispatcher.core import progress


def test_rows_are_reported_while_they_are_taken_to_whoever_listens():
    heard = []
    with progress.listening(lambda *said: heard.append(said)):
        rows = progress.counted(range(600), "lines", lambda: 600)
        assert list(rows) == list(range(600))
    assert heard == [(256, 600, "lines"), (512, 600, "lines"), (600, 600, "lines")]


def test_unheard_nothing_is_counted():
    rows = range(3)
    assert progress.counted(rows, "lines", lambda: 1 / 0) is rows
    progress.report(1, 3, "lines")
