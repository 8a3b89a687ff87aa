"""A daemon whose machine's clock is set by a year, forth and back, goes on working."""

import shutil
import subprocess

import pytest

from dispatcher.app.leadership import LEASE_SECONDS
from dispatcher.store import lease, open_store
from dispatcher.surfaces.cli.context import wall_clock
from tests import sql
from tests.e2e import programs
from tests.e2e.programs import Program, until

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int real(clockid_t id, struct timespec *now) {
    static int (*known)(clockid_t, struct timespec *);
    if (!known) known = dlsym(RTLD_NEXT, "clock_gettime");
    return known(id, now);
}

static long offset(void) {  /* read anew every 50 ms */
    static long seconds, looked = -1;
    struct timespec now;
    real(CLOCK_MONOTONIC, &now);
    long tick = now.tv_sec * 20 + now.tv_nsec / 50000000;
    if (tick == looked) return seconds;
    FILE *file = fopen(getenv("CLOCK_OFFSET_FILE"), "r");
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    looked = tick;
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = real(id, now);
    if (id == CLOCK_REALTIME && !failed) now->tv_sec += offset();
    return failed;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
"""
YEAR = 365 * 86_400


@pytest.fixture
def set_clock(tmp_path, monkeypatch):
    """Set the time of day of programs that start after this, by so many seconds."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to put a library before the clock")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    offset = tmp_path / "offset"
    offset.write_text("0")
    known = programs.environment

    def environment():
        return known() | {
            "LD_PRELOAD": str(library),
            "CLOCK_OFFSET_FILE": str(offset),
        }

    monkeypatch.setattr(programs, "environment", environment)

    def set_it(seconds):
        new = tmp_path / "offset.new"
        new.write_text(str(seconds))
        new.replace(offset)

    return set_it


@pytest.mark.parametrize("years", [1, -1])
def test_a_daemon_outlives_a_clock_that_is_set_by_a_year_and_set_right_again(
    tmp_path, sqlite_template, set_clock, years
):
    program = Program(tmp_path, anew=True)
    program.settle(sqlite_template)
    settings = tmp_path / "dispatcher.toml"
    settings.write_text(settings.read_text() + "sealing = 0.3\n")  # of [ticks]
    with program.up() as process:
        program.ready()
        epoch = program.metric("dispatcher_lease_epoch")
        for number, seconds in enumerate((years * YEAR, 0)):
            set_clock(seconds)
            until(lambda off=seconds: leads_at(program, off), "the lease is renewed")
            known = seals(program)
            program.run("workers", "add", f"inhouse/ann{number}")
            until(lambda known=known: seals(program) > known, "its line is sealed")
        assert process.poll() is None
        assert program.metric("dispatcher_lease_epoch") == epoch
    assert program.log().count("event=clock-was-set") == 2
    assert "lease-lost" not in program.log()


def leads_at(program, offset):
    """Whether the lease ends a few seconds after the time that a clock shows."""
    with open_store(program.directory / "dispatcher.db") as store, store.read() as tx:
        found = lease.holder(tx, lease.SHARD)
    left = found.leased_until / 1_000_000 - (wall_clock() / 1_000_000 + offset)
    return 0 < left <= LEASE_SECONDS


def seals(program):
    with open_store(program.directory / "dispatcher.db") as store, store.read() as tx:
        return sql.value(tx, "SELECT count(*) FROM ledger_line WHERE kind = 'seal'")
