"""Users and tokens: who comes in, what opens nothing, and how guessing is slowed."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from pwdlib.hashers.argon2 import Argon2Hasher

from dispatcher import access
from dispatcher.access import sessions, tokens, users
from dispatcher.core.errors import Conflict, Invalid, NotFound
from dispatcher.core.keyring import make_keyring
from dispatcher.custody.key_rotation import rekey_store
from dispatcher.store import audit_log, open_store, people, rekey
from dispatcher.store.vault import KeyFile
from tests import builders, sql
from tests.conftest import counting_entropy

PASSWORD = "four lamps over a green harbour"
DAY = 86_400
STEP = 30


class Counted(Argon2Hasher):
    """Counts how often it is asked."""

    asked = 0

    def verify(self, password, hash):
        self.asked += 1
        return super().verify(password, hash)


HASHER = Counted(time_cost=1, memory_cost=8, parallelism=1)
PASSWORDS = access.Passwords(HASHER)


class House:
    """One store with users, at one moment after another."""

    def __init__(self, store, clock):
        self.store, self.clock = store, clock
        self.entropy = counting_entropy()
        self.attempts = access.Attempts()
        self.secrets = {}

    def link(self, name, *roles):
        return users.add_user(self.store, name, roles, self.clock(), self.entropy)

    def enrol(self, link, name="", password=PASSWORD, code=None):
        offered = users.enrolment(self.store, link, self.clock())
        if offered is not None:
            self.secrets[offered.name or name] = offered.secret
            code = code or builders.code_at(offered.secret, self.clock())
        return access.enrol(
            self.store,
            link,
            password,
            code or "",
            self.clock(),
            passwords=PASSWORDS,
            entropy=self.entropy,
            name=name,
        )

    def add(self, name, *roles):
        """Add a user who has enrolled; the code of that step is used."""
        assert self.enrol(self.link(name, *roles)) is not None
        self.clock.advance(STEP)

    def code(self, name):
        return builders.code_at(self.secrets[name], self.clock())

    def sign_in(self, name, password=PASSWORD, code=None, network="10.0.0.1"):
        return access.sign_in(
            self.store,
            name,
            password,
            self.code(name) if code is None else code,
            self.clock(),
            network=network,
            passwords=PASSWORDS,
            attempts=self.attempts,
            entropy=self.entropy,
        )

    def who(self, session):
        found = access.authenticate_session(self.store, session or "", self.clock())
        return None if found is None else found.principal

    def token(self, *scopes, days=30, user=None, name="load"):
        return access.make_token(
            self.store,
            name,
            scopes,
            self.clock(),
            days=days,
            entropy=self.entropy,
            user=user,
        )

    def of_token(self, secret):
        return access.authenticate_token(self.store, secret, self.clock())


@pytest.fixture
def house(store, clock):
    return House(store, clock)


# -- the first admin -------------------------------------------------------------------


def test_safety_1_the_first_admins_link_works_once_for_ten_minutes(house, clock):
    links = [
        users.make_first_admin_link(house.store, clock(), house.entropy)
        for _ in range(3)
    ]
    late = users.make_first_admin_link(house.store, clock(), house.entropy)
    clock.advance(10 * 60 - 1)
    session = house.enrol(links[0], "ann")
    assert house.who(session).roles == {"admin"}
    assert house.enrol(links[0], "eve") is None, "used"
    assert house.enrol(links[1], "eve") is None, "there is an admin"
    clock.advance(1)
    assert house.enrol(late, "eve") is None, "too old"
    with pytest.raises(Conflict, match="there are users already"):
        users.make_first_admin_link(house.store, clock(), house.entropy)


def test_safety_1_a_link_to_enrol_opens_no_session_by_itself(house, clock):
    link = house.link("ann", "viewer")
    assert access.sign_in_by_link(house.store, link, clock()) is None
    plain = access.make_link(house.store, clock())
    assert house.enrol(plain, "eve") is None


# -- passwords and codes ---------------------------------------------------------------


def test_a_user_signs_in_with_password_and_code(house):
    house.add("ann", "operator", "policy-admin")
    principal = house.who(house.sign_in("ann"))
    assert (principal.name, principal.kind) == ("ann", "user")
    assert access.allowed(principal, "policy.apply")
    assert not access.allowed(principal, "users.add")


def test_safety_2_passwords_are_kept_by_argon2id_and_codes_sealed(house):
    house.add("ann", "viewer")
    with house.store.read() as tx:
        kept = people.user_named(tx, "ann")
        assert people.totp_secret(tx, kept) == house.secrets["ann"]
    assert kept.password.startswith("$argon2id$")


@pytest.mark.parametrize(
    "password",
    [
        "14 characters.",
        "x" * 129,
        "passwordpassword",
        "qwertyuiopasdfgh",
        "annannannannann",
        "123456789012345",
    ],
)
def test_safety_2_short_long_and_common_passwords_are_refused(house, password):
    link = house.link("ann", "viewer")
    with pytest.raises(Invalid, match="will not do"):
        house.enrol(link, password=password)
    assert house.enrol(link, password="👩‍🚀 flies over 7 teal lamps") is not None


def test_safety_2_unknown_disabled_and_wrong_are_one_answer_and_the_same_work(house):
    house.add("ann", "viewer")
    house.add("bob", "viewer")
    users.disable_user(house.store, "bob", house.clock())
    work = []
    for name, password, code in (
        ("ann", "not this one, surely", None),
        ("ann", PASSWORD, "000000"),
        ("bob", PASSWORD, None),
        ("nobody", PASSWORD, "123456"),
    ):
        before = HASHER.asked
        assert house.sign_in(name, password, code) is None
        work.append(HASHER.asked - before)
    assert work == [1, 1, 1, 1]


def test_safety_2_guessing_is_slowed_by_name_and_by_network(house, clock):
    house.add("ann", "viewer")
    for _ in range(5):
        assert house.sign_in("ann", "wrong", network="10.9.9.9") is None
    before = HASHER.asked
    assert house.sign_in("ann", network="10.9.9.9") is None, "right, but too soon"
    assert HASHER.asked == before
    clock.advance(60)
    assert house.sign_in("ann", network="10.9.9.9") is not None
    for number in range(20):
        assert house.sign_in(f"guess{number}", "x", "1", network="10.7.7.7") is None
    clock.advance(STEP // 15)
    assert house.sign_in("ann", network="10.7.7.7") is None


def test_safety_2_whoever_guesses_elsewhere_keeps_nobody_out(house):
    """The name alone locks nothing: it stands in every audit line."""
    house.add("ann", "admin")
    for number in range(30):
        house.sign_in("ann", "wrong", "1", network=f"10.0.0.{number % 6}")
    assert house.sign_in("ann", network="10.9.9.9") is not None


def test_safety_3_a_code_works_once_and_for_a_minute_and_a_half(house, clock):
    house.add("ann", "viewer")
    code = house.code("ann")
    assert house.sign_in("ann", code=code) is not None
    assert house.sign_in("ann", code=code) is None, "used"
    code = builders.code_at(house.secrets["ann"], clock() + STEP * 1_000_000)
    clock.advance(2 * STEP)
    assert house.sign_in("ann", code=code) is not None, "one step late"
    clock.advance(3 * STEP)
    late = builders.code_at(house.secrets["ann"], clock() - 2 * STEP * 1_000_000)
    assert house.sign_in("ann", code=late) is None


def test_safety_3_nobody_enrols_without_the_right_code(house):
    link = house.link("ann", "viewer")
    with pytest.raises(Invalid, match="not the code of now"):
        house.enrol(link, code="000000")
    assert re.match(
        r"otpauth://totp/dispatcher:ann\?secret=[A-Z2-7]{32}&issuer=dispatcher",
        users.enrolment(house.store, link, house.clock()).uri(),
    )


def test_safety_31_sign_ins_that_fail_are_lines_of_the_chain_too(house, clock):
    house.add("ann", "viewer")
    for name in ("ann", "ann", "my password, by mistake"):
        assert house.sign_in(name, "wrong", "1") is None
    clock.advance(61)
    assert house.sign_in("my password, by mistake", "wrong", "1") is None
    assert house.sign_in("ann") is not None
    with house.store.read() as tx:
        lines = [
            (one.actor, one.operation, one.outcome, one.reason)
            for one in reversed(audit_log.newest(tx, actor=None, limit=4))
        ]
        audit_log.check_chain(tx)
    signing = "console.sign-in"
    assert lines == [
        ("ann", signing, "denied", ""),
        ("ann", signing, "denied", "2 more within a minute"),
        ("unknown", signing, "denied", ""),
        ("ann", signing, "done", ""),
    ]


def test_safety_4_some_acts_ask_for_password_and_code_once_more(house, clock):
    house.add("ann", "policy-admin")
    house.add("bob", "policy-admin")
    session = house.sign_in("ann")

    def asks(operation="workers.merge"):
        found = access.authenticate_session(house.store, session, clock())
        return found.must_prove(operation, clock())

    def prove(password=PASSWORD, code=None):
        return access.prove(
            house.store,
            session,
            access.authenticate_session(house.store, session, clock()),
            password,
            house.code("ann") if code is None else code,
            clock(),
            network="10.0.0.1",
            passwords=PASSWORDS,
            attempts=house.attempts,
        )

    assert not asks(), "just signed in"
    clock.advance(5 * 60)
    assert asks()
    assert not asks("policy.apply")
    assert not prove(password="wrong")
    assert not prove(code="000000")
    assert not prove(code=house.code("bob"))
    assert asks()
    code = house.code("ann")
    assert prove(code=code)
    assert not asks()
    assert not prove(code=code), "a code works once"
    clock.advance(5 * 60)
    assert asks()
    for _ in range(6):
        prove(password="wrong")
    assert not prove(), "too often wrong"


# -- two at one moment -----------------------------------------------------------------


def together(monkeypatch, module, name, *acts):
    """Do acts at one moment: each waits behind a step until all are there, or may not be.

    What an act is kept from by a lock it cannot reach; then the others go on.
    """
    meeting, step = threading.Barrier(len(acts)), getattr(module, name)

    def late(*given, **more):
        done = step(*given, **more)
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.3)
        return done

    def outcome(act):
        try:
            return act()
        except Conflict as error:
            return error

    monkeypatch.setattr(module, name, late)
    with ThreadPoolExecutor(len(acts)) as pool:
        return [one.result() for one in [pool.submit(outcome, act) for act in acts]]


@pytest.mark.parametrize("how", ["disable", "role"])
def test_two_admins_who_go_at_one_moment_leave_one(house, monkeypatch, how):
    for name in ("ann", "bob"):
        house.add(name, "admin")

    def go(name):
        if how == "disable":
            return users.disable_user(house.store, name, house.clock())
        return users.set_roles(house.store, name, ["viewer"], house.clock())

    said = together(
        monkeypatch, users, "_keep_an_admin", lambda: go("ann"), lambda: go("bob")
    )
    assert {type(one) for one in said} == {type(None), Conflict}
    left = [one for one in users.list_users(house.store) if one.disabled_at is None]
    assert sum("admin" in one.roles.split() for one in left) == 1


def test_safety_1_two_links_at_one_moment_make_one_first_admin(house, monkeypatch):
    links = [
        users.make_first_admin_link(house.store, house.clock(), house.entropy)
        for _ in range(2)
    ]
    said = together(
        monkeypatch,
        people,
        "add_user",
        lambda: house.enrol(links[0], "ann"),
        lambda: house.enrol(links[1], "bob"),
    )
    assert sum(one is not None for one in said) == 1
    assert len(users.list_users(house.store)) == 1


# -- what ends sessions ----------------------------------------------------------------


@pytest.mark.parametrize("what", ["role", "disable", "reset", "enrol anew"])
def test_safety_4_sessions_end_when_a_users_rights_or_secrets_change(house, what):
    house.add("ann", "viewer")
    house.add("eve", "viewer")
    session, other = house.sign_in("ann"), house.sign_in("eve")
    assert house.who(session) is not None
    if what == "role":
        users.set_roles(house.store, "ann", ["operator"], house.clock())
    elif what == "disable":
        users.disable_user(house.store, "ann", house.clock())
    else:
        link = users.reset_user(house.store, "ann", house.clock(), house.entropy)
        if what == "enrol anew":
            house.enrol(link)
    assert house.who(session) is None
    assert house.who(other) is not None


def test_one_session_is_revoked_by_its_id(house):
    house.add("ann", "viewer")
    house.clock.advance(STEP)
    first = house.sign_in("ann")
    house.clock.advance(STEP)
    second = house.sign_in("ann")
    listed = sessions.list_sessions(house.store, house.clock())
    assert [name for _, name, _ in listed][-2:] == ["ann", "ann"]
    sessions.revoke_session(house.store, listed[-1][0], house.clock())
    assert (house.who(first) is None, house.who(second) is None) == (False, True)
    with pytest.raises(NotFound):
        sessions.revoke_session(house.store, "%" * 12, house.clock())


def test_the_last_admin_stays(house):
    house.add("ann", "admin")
    house.add("bob", "viewer")
    for change in (
        lambda: users.disable_user(house.store, "ann", house.clock()),
        lambda: users.set_roles(house.store, "ann", ["viewer"], house.clock()),
    ):
        with pytest.raises(Conflict, match="the only admin"):
            change()
    users.set_roles(house.store, "bob", ["admin"], house.clock())
    users.disable_user(house.store, "ann", house.clock())


def test_a_name_is_taken_once_and_for_good(house):
    house.link("ann", "viewer")
    with pytest.raises(Conflict, match="there is a user ann already"):
        house.link("ann", "operator")
    for name in ("", "a b", "a" * 65, "é", "<b>"):
        with pytest.raises(Invalid):
            house.link(name, "viewer")


# -- tokens ----------------------------------------------------------------------------


def test_a_token_does_what_its_scopes_say_and_is_kept_as_a_digest(house):
    made = house.token("records:write")
    principal = house.of_token(made.secret)
    assert principal.name == f"token:{made.id}/load"
    assert principal.may("records.load")
    assert not principal.may("records.list")
    with house.store.read() as tx:
        kept = str(sql.rows(tx, "SELECT * FROM api_token"))
    assert made.secret not in kept
    assert made.secret[20:] not in kept
    assert made.prefix in kept


def test_a_reset_revokes_the_tokens_of_the_user_and_no_others(house, clock):
    for name in ("ann", "eve"):
        house.add(name, "operator")
    anns, eves, nobodys = (
        house.token("records:write", user=user) for user in ("ann", "eve", None)
    )
    link = users.reset_user(house.store, "ann", clock(), house.entropy)
    house.enrol(link)
    assert house.of_token(anns.secret) is None
    assert house.of_token(eves.secret) is not None
    assert house.of_token(nobodys.secret) is not None


def test_a_token_ends_and_is_revoked(house, clock):
    short, gone = house.token("records:write", days=1), house.token("records:write")
    tokens.revoke_token(house.store, str(gone.id), clock())
    assert house.of_token(gone.secret) is None
    clock.advance(DAY - 1)
    assert house.of_token(short.secret) is not None
    clock.advance(1)
    assert house.of_token(short.secret) is None
    with pytest.raises(NotFound):
        tokens.revoke_token(house.store, gone.prefix, clock())


@pytest.mark.parametrize(
    "change",
    [
        lambda s: "",
        lambda s: s[:-1],
        lambda s: s + "0",
        lambda s: s[:-8] + "00000000",
        lambda s: s.upper(),
        lambda s: "é" * len(s),
        lambda s: s[:20] + ("0" if s[20] != "0" else "1") + s[21:],
    ],
)
def test_what_is_no_token_opens_nothing(house, change):
    assert house.of_token(change(house.token("records:write").secret)) is None


def test_a_token_never_does_more_than_its_user(house):
    house.add("ann", "operator")
    with pytest.raises(Conflict, match="cannot have such a token"):
        house.token("policy:write", user="ann")
    made = house.token("records:write", "records:read", user="ann")
    users.set_roles(house.store, "ann", ["viewer"], house.clock())
    assert house.of_token(made.secret).scopes == {"records:read"}
    users.disable_user(house.store, "ann", house.clock())
    assert house.of_token(made.secret) is None


@pytest.mark.parametrize("scope", ["tokens:write", "users:write", "machine", "x"])
def test_a_token_cannot_make_tokens(house, scope):
    with pytest.raises(Invalid):
        house.token(scope)


def test_a_tokens_last_use_is_kept_to_the_minute(house, clock):
    made = house.token("records:write")
    used = []
    for seconds in (0, 59, 1):
        clock.advance(seconds)
        house.of_token(made.secret)
        used.append(tokens.list_tokens(house.store)[-1].used_at - clock())
    assert used == [0, -59_000_000, 0]


def test_a_token_is_valid_for_a_year_at_most(house):
    for days in (0, 367):
        with pytest.raises(Invalid):
            house.token("records:write", days=days)


def test_safety_32_a_second_factor_is_sealed_and_wrapped_anew_with_the_rest(
    sqlite_path, clock, tmp_path
):
    file = KeyFile(tmp_path / "dispatcher.key")
    with open_store(sqlite_path) as store:
        House(store, clock).add("ann", "viewer")
        with store.read() as tx:
            clear = people.user_named(tx, "ann")
            assert rekey.remaining(tx)["app_user"] == 1
    make_keyring(file.path, counting_entropy())
    with open_store(sqlite_path, key_file=file) as store:
        rekey_store(store, file)
        rekey_store(store, file, new_key=True, forget_old=True)
        with store.read() as tx:
            sealed = people.user_named(tx, "ann")
            assert people.totp_secret(tx, sealed) == clear.totp
            assert clear.totp not in sealed.totp
