"""Names of processes: which one has ended, and how people read them."""

import os
import subprocess
import sys

import pytest

from dispatcher.core.processes import describe_process, is_dead, process_name


@pytest.fixture
def ended():
    """The name that a process had which has ended since."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process_name(child.pid)
    child.communicate(b"\n")
    return name


def test_a_running_process_is_not_dead():
    assert not is_dead(process_name(os.getpid()))


def test_a_process_that_ended_is_dead(ended):
    assert is_dead(ended)


def test_a_number_given_to_another_process_is_another_name(ended):
    host, boot, _, started = ended.split("/")
    assert is_dead(f"{host}/{boot}/{os.getpid()}/{started}")


@pytest.mark.parametrize("part", [0, 1], ids=["host", "boot"])
def test_a_process_of_elsewhere_is_never_told_dead(ended, part):
    parts = ended.split("/")
    parts[part] = "elsewhere"
    assert not is_dead("/".join(parts))


@pytest.mark.parametrize("name", ["", "me", "a/b/c", "h/b/x/1", "h//1/1"])
def test_a_name_of_another_form_is_never_told_dead(name):
    assert not is_dead(name)


def test_people_are_told_host_and_pid():
    assert describe_process("host-a/b00t/4121/99") == "host-a pid 4121"
    assert describe_process("something") == "something"
