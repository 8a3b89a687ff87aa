"""Mail: to a real server, never at night what can wait, never longer than it may take."""

import re
import socket
import ssl
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, time, timedelta
from ipaddress import ip_address
from zoneinfo import ZoneInfo

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from dispatcher.core.config import NoticeSettings
from dispatcher.model import NOTICES
from dispatcher.notices.mail import (
    NotMailed,
    Told,
    after_quiet,
    compose,
    mail_due,
    next_at,
    send,
)
from tests.conftest import START

BERLIN = ZoneInfo("Europe/Berlin")
ONCALL = {"host": "127.0.0.1", "sender": "d@example.org", "to": ("a@example.org",)}


def at(text, zone=BERLIN, fold=0):
    moment = datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)
    return round(moment.timestamp()) * 1_000_000


# -- quiet hours -----------------------------------------------------------------------

QUIET = NoticeSettings(**ONCALL, quiet="22:00-07:00", zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2027-01-15 21:59:59", "2027-01-15 21:59:59"),
        ("2027-01-15 22:00:00", "2027-01-16 07:00:00"),
        ("2027-01-16 00:00:00", "2027-01-16 07:00:00"),
        ("2027-01-16 06:59:59", "2027-01-16 07:00:00"),
        ("2027-01-16 07:00:00", "2027-01-16 07:00:00"),
        # the nights on which clocks are set forward, and back
        ("2027-03-27 23:00:00", "2027-03-28 07:00:00"),
        ("2027-10-30 23:00:00", "2027-10-31 07:00:00"),
    ],
)
def test_quiet_hours_reach_over_midnight_and_over_nights_of_another_length(now, due):
    assert after_quiet(QUIET, at(now)) == at(due)
    night = NOTICES["limit.crossed"]
    assert mail_due(QUIET, night, at(now)) == at(now)
    assert mail_due(QUIET, NOTICES["connector.down"], at(now)) == at(due)


def test_quiet_hours_of_one_day_end_on_it():
    noon = QUIET.model_copy(update={"quiet": "12:00-13:00"})
    assert after_quiet(noon, at("2027-01-15 12:30")) == at("2027-01-15 13:00")
    assert after_quiet(noon, at("2027-01-15 13:30")) == at("2027-01-15 13:30")
    none = QUIET.model_copy(update={"quiet": "12:00-12:00"})
    assert after_quiet(none, at("2027-01-15 12:00")) == at("2027-01-15 12:00")


def test_a_time_that_clocks_show_twice_or_not_at_all_delays_nothing_by_a_day():
    half = time(2, 30)
    skipped = next_at(at("2027-03-28 01:00"), half, BERLIN)
    assert skipped == at("2027-03-28 01:30", UTC)  # 03:30 by the clock
    first, second = (at("2027-10-31 02:30", fold=fold) for fold in (0, 1))
    assert second - first == 3_600_000_000
    assert next_at(first - 1, half, BERLIN) == first
    assert next_at(first, half, BERLIN) == second
    assert next_at(second, half, BERLIN) == at("2027-11-01 02:30")


def test_a_digest_comes_at_its_time_but_not_into_quiet_hours():
    kind = NOTICES["connector.down"]
    digest = QUIET.model_copy(update={"digest": "08:00"})
    assert mail_due(digest, kind, at("2027-01-15 08:00")) == at("2027-01-16 08:00")
    early = QUIET.model_copy(update={"digest": "06:00"})
    assert mail_due(early, kind, at("2027-01-15 12:00")) == at("2027-01-16 07:00")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"host": "smtp.example.org"}, "addresses such as"),
        ({**ONCALL, "to": ()}, "names nobody"),
        (
            {**ONCALL, "to": ("a@example.org\nBcc: eve@example.org",)},
            "addresses such as",
        ),
        ({**ONCALL, "host": "smtp.example.org", "tls": "none"}, "not this machine"),
        ({**ONCALL, "user": "d"}, "go together"),
        ({"quiet": "22-7"}, "expected HH:MM"),
        ({"quiet": "22:00-24:00"}, "expected HH:MM"),
        ({"digest": "8:00"}, "expected HH:MM"),
        ({"zone": "Europe/Atlantis"}, "no time zone"),
        ({"zone": "../../etc/passwd"}, "no time zone"),
        ({"heartbeat": 1}, "below 10 s"),
        ({"host": "smtp example"}, "pattern"),
    ],
)
def test_settings_that_would_fail_at_night_are_refused_at_once(settings, error):
    with pytest.raises(ValidationError, match=error):
        NoticeSettings(**settings)


# -- what a mail says ------------------------------------------------------------------


def test_a_mail_is_about_ids_and_cannot_be_given_further_headers():
    told = [
        Told(
            "msg_1", "connector.down", START, {"connector": "x\r\nBcc: e@example.org"}
        ),
        Told("msg_2", "notices.test", START, {}),
    ]
    mail = compose(QUIET, told, START)
    assert mail["Bcc"] is None
    assert "\n" not in mail["Subject"]
    assert mail["Subject"].startswith("[dispatcher] urgent: 2 notices, connector x")
    assert mail["Message-ID"] == "<msg_1.2@dispatcher.invalid>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert b"Fri, 15 Jan 2027" in mail.as_bytes()
    assert "dispatcher status says more" in mail.get_content()


# -- a real server ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 that nobody but this file trusts; (server's, client's)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail")])
    today = datetime(2020, 1, 1, tzinfo=UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today)
        .not_valid_after(today + timedelta(days=36_500))
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(
        key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(pem)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))


class Inbox:
    """What a server took, from whom it takes, and what it refuses."""

    def __init__(self):
        self.mails, self.refused, self.code = [], set(), ""

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.refused:
            return "550 no such user a-name@example.org"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.code:
            return self.code
        self.mails.append((envelope.rcpt_tos, envelope.content.decode()))
        return "250 OK"


@contextmanager
def serving(certificate, tls="starttls"):
    def authenticated(server, session, envelope, mechanism, given):
        return AuthResult(success=given.password == b"four lamps", handled=False)

    inbox = Inbox()
    context = certificate[0]

    class Server(Controller):
        def factory(self):
            return SMTP(
                self.handler,
                tls_context=context if tls == "starttls" else None,
                require_starttls=tls == "starttls",
                authenticator=authenticated,
                auth_required=tls == "starttls",
            )

    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(
        inbox,
        "127.0.0.1",
        port,
        ssl_context=context if tls == "tls" else None,
        ready_timeout=30,
    )
    server.start()
    try:
        yield inbox, port
    finally:
        server.stop()


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "smtp.secret"
    file.write_text("four lamps\n")
    file.chmod(0o600)
    return file


def settings_of(port, **more):
    given = {**ONCALL, "port": port, "user": "d", "password_file": "smtp.secret"}
    return NoticeSettings(**{**given, **more})


def mail_of(settings):
    told = [Told("msg_1", "connector.down", START, {"connector": "mturk"})]
    return compose(settings, told, START)


def test_a_mail_arrives_over_starttls_and_what_is_refused_is_named_by_its_code(
    certificate, tmp_path, secret
):
    with serving(certificate) as (inbox, port):
        settings = settings_of(port, to=("a@example.org", "b@example.org"))

        def sent():
            return send(settings, tmp_path, mail_of(settings), trusted=certificate[1])

        assert sent() is None
        ((to, text),) = inbox.mails
        assert to == ["a@example.org", "b@example.org"]
        assert "Subject: [dispatcher] connector mturk is down" in text
        inbox.refused = {"b@example.org"}
        assert sent() == "refused for 1 of 2 addresses"
        inbox.refused |= {"a@example.org"}
        with pytest.raises(NotMailed, match="for none of 2 addresses") as caught:
            sent()
        assert "a-name" not in str(caught.value)
        inbox.refused, inbox.code = set(), "554 no, Canary"
        with pytest.raises(NotMailed, match=r"refuses \(554\)$"):
            sent()
        with pytest.raises(NotMailed, match="no certificate that is trusted"):
            send(settings, tmp_path, mail_of(settings))
        secret.write_text("three lamps")
        with pytest.raises(NotMailed, match=r"does not take the password \(535\)$"):
            sent()
    with pytest.raises(NotMailed, match="cannot be talked to"):
        sent()  # nobody is there any more


def test_a_mail_arrives_over_tls_from_the_start(certificate, tmp_path, secret):
    with serving(certificate, "tls") as (inbox, port):
        settings = NoticeSettings(**ONCALL, port=port, tls="tls")
        send(settings, tmp_path, mail_of(settings), trusted=certificate[1])
        with pytest.raises(NotMailed, match="no certificate that is trusted"):
            send(settings, tmp_path, mail_of(settings))
    assert len(inbox.mails) == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda file: file.unlink(), "cannot be read: No such file"),
        (lambda file: file.chmod(0o640), "others may read"),
        (lambda file: file.write_text("\n"), "not one line"),
        (lambda file: file.write_text("two\nlines"), "not one line"),
        (lambda file: file.write_text("x" * 5000), "not one line"),
        (lambda file: file.write_bytes(b"\xff\xfe"), "not UTF-8"),
    ],
)
def test_a_password_that_cannot_be_used_is_not_tried(tmp_path, secret, change, error):
    change(secret)
    settings = settings_of(9)
    with pytest.raises(NotMailed, match=error) as caught:
        send(settings, tmp_path, mail_of(settings))
    assert not re.search("lines|xxx", str(caught.value).replace("one line", ""))


def test_a_server_that_drips_is_left_in_time(tmp_path):
    ended = threading.Event()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def drip():
            connection, _ = server.accept()
            with connection:
                while not ended.wait(0.02):
                    try:
                        connection.sendall(b"2")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        settings = NoticeSettings(**ONCALL, port=server.getsockname()[1], tls="none")
        try:
            with pytest.raises(NotMailed, match="cannot be talked to"):
                send(settings, tmp_path, mail_of(settings), seconds=0.3)
        finally:
            ended.set()
            thread.join()
