"""How a command line is taken apart."""

from dispatcher.surfaces.cli.start import hoist


def test_options_for_all_commands_may_follow_the_command():
    assert hoist(["status", "--json", "-q", "--watch", "1"]) == [
        "--json",
        "-q",
        "status",
        "--watch",
        "1",
    ]
    assert hoist(["records", "show", "--", "--json"]) == [
        "records",
        "show",
        "--",
        "--json",
    ]
