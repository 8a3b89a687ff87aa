"""Units have numbers of their own, and every state that may follow is a state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import CheckConstraint

from dispatcher.model import metadata
from dispatcher.model.states import (
    LIVE_TASK_STATES,
    TRANSITIONS,
    link_unit,
    record_unit,
    subject_unit,
)

IDS = st.integers(1, 2**62)


@given(IDS, IDS, IDS)
def test_units_of_records_people_and_links_never_meet(record, subject, link):
    units = record_unit(record), subject_unit(subject), link_unit(link)
    assert len(set(units)) == 3
    assert (units[0] // 2, units[1] // 2, -units[2]) == (record, subject, link)
    assert (units[0] & 1, units[1] & 1, units[2] < 0) == (0, 1, True)


@pytest.mark.parametrize("table", TRANSITIONS)
def test_what_may_follow_is_a_state_of_the_table(table):
    states = TRANSITIONS[table]
    assert set().union(*states.values()) <= states.keys()
    assert not [state for state, after in states.items() if state in after]


@pytest.mark.parametrize("table", TRANSITIONS)
def test_the_database_takes_exactly_these_states(table):
    (check,) = (
        one
        for one in metadata.tables[table].constraints
        if isinstance(one, CheckConstraint) and str(one.name).endswith("state")
    )
    assert set(str(check.sqltext).split("'")[1::2]) == TRANSITIONS[table].keys()


def test_a_live_task_may_still_be_answered():
    for state in LIVE_TASK_STATES:
        assert "answered" in TRANSITIONS["task"][state]
