"""Notices by mail: few, without a value, and not at night if they can wait."""

from __future__ import annotations

import shlex
import smtplib
import socket
import ssl
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from dispatcher.core.config import NoticeSettings
from dispatcher.core.input_files import read_input
from dispatcher.model import NOTICES, NoticeType

SECOND: Final = 1_000_000
STEP_SECONDS: Final = 15.0
"""Time limit of one step of the conversation with the server."""
SECONDS: Final = 60.0
"""Time limit of the whole of it: a server that drips ends here."""
_MOST_SECRET: Final = 4096


class NotMailed(Exception):
    """The server did not take the message; the text names no address."""


@dataclass(frozen=True)
class Told:
    """One notice as people read it."""

    message: str
    type: str
    at: int
    data: Mapping[str, object]

    @property
    def kind(self) -> NoticeType:
        """Its line of the table."""
        return NOTICES[self.type]

    @property
    def text(self) -> str:
        """What happened, in one sentence."""
        return self.kind.text.format_map(_TemplateFields(self.data))

    @property
    def fix(self) -> str:
        """The command to look with; names stand there as a shell needs them."""
        quoted = {name: shlex.quote(str(one)) for name, one in self.data.items()}
        return self.kind.fix.format_map(_TemplateFields(quoted))


class _TemplateFields(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def mail_due(settings: NoticeSettings, kind: NoticeType, now: int) -> int:
    """When a notice is mailed: now, at the end of quiet hours, or with the digest."""
    if kind.mail == "night":
        return now
    if settings.digest_time is not None:
        now = next_at(now, settings.digest_time, ZoneInfo(settings.zone))
    return after_quiet(settings, now)


def after_quiet(settings: NoticeSettings, now: int) -> int:
    """Return the moment itself, or the end of the quiet hours that it is in."""
    hours = settings.quiet_hours
    if hours is None:
        return now
    begin, end = hours
    zone = ZoneInfo(settings.zone)
    here = datetime.fromtimestamp(now / SECOND, zone).time().replace(tzinfo=None)
    quiet = begin <= here < end if begin < end else here >= begin or here < end
    return next_at(now, end, zone) if quiet else now


def next_at(now: int, wanted: time, zone: ZoneInfo) -> int:
    """Return the next moment at which clocks show a time.

    Where they are set forward over it, it is as long after midnight as on other days;
    where they show it twice, each of the two counts.
    """
    today = datetime.fromtimestamp(now / SECOND, zone).date()
    moments: list[int] = []
    for day in (0, 1, 2):
        first = datetime.combine(today + timedelta(days=day), wanted, zone)
        twice = first.replace(fold=1)
        moments.append(round(first.timestamp()))
        if twice.timestamp() > first.timestamp():
            moments.append(round(twice.timestamp()))
    return min(one * SECOND for one in moments if one * SECOND > now)


def compose(
    settings: NoticeSettings, notices: Sequence[Told], now: int, console: str = ""
) -> EmailMessage:
    """Write one message about notices; ids and names of the operator's, no value."""
    first, zone = notices[0], ZoneInfo(settings.zone)
    urgent = "urgent: " if any(one.kind.mail == "night" for one in notices) else ""
    subject = (
        first.text if len(notices) == 1 else f"{len(notices)} notices, {first.text}"
    )
    lines: list[str] = []
    for one in notices:
        at = datetime.fromtimestamp(one.at // SECOND, zone)
        lines += [f"{at.isoformat(sep=' ', timespec='seconds')}  {one.type}", one.text]
        lines += [f"  {one.fix}"] if one.fix else []
        lines.append("")
    lines.append(f"Console: {console}" if console else "dispatcher status says more.")
    mail = EmailMessage()
    mail["Subject"] = _one_line(f"[dispatcher] {urgent}{subject}")
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.to)
    mail["Date"] = datetime.fromtimestamp(now // SECOND, UTC)
    mail["Message-ID"] = f"<{first.message}.{len(notices)}@dispatcher.invalid>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join(lines) + "\n")
    return mail


def _one_line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)[:200]


def send(
    settings: NoticeSettings,
    directory: Path,
    mail: EmailMessage,
    *,
    trusted: ssl.SSLContext | None = None,
    seconds: float = SECONDS,
) -> str | None:
    """Hand a message to the server.

    Parameters
    ----------
    settings : NoticeSettings
    directory : Path
        Where the password's file is looked for.
    mail : EmailMessage
    trusted : ssl.SSLContext, optional
        Trusted certificates; None: the system's.
    seconds : float
        Time limit of the whole conversation.

    Returns
    -------
    str or None
        What the operator should know though it was sent.

    Raises
    ------
    NotMailed
        Nobody got it, as far as is known.
    """
    password = _password(settings, directory)
    context = trusted or ssl.create_default_context()
    try:
        with _connected(settings, context, seconds) as server:
            if settings.tls == "starttls":
                server.starttls(context=context)
            if settings.user:
                server.login(settings.user, password)
            refused = server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        raise NotMailed(
            f"{settings.host} takes mail for none of {len(error.recipients)} addresses"
        ) from None
    except smtplib.SMTPAuthenticationError as error:
        code = error.smtp_code
        raise NotMailed(
            f"{settings.host} does not take the password ({code})"
        ) from None
    except smtplib.SMTPResponseException as error:
        raise NotMailed(f"{settings.host} refuses ({error.smtp_code})") from None
    except ssl.SSLError:
        raise NotMailed(
            f"{settings.host} shows no certificate that is trusted"
        ) from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        name = type(error).__name__
        raise NotMailed(f"{settings.host} cannot be talked to ({name})") from None
    if refused:
        return f"refused for {len(refused)} of {len(settings.to)} addresses"
    return None


@contextmanager
def _connected(
    settings: NoticeSettings, context: ssl.SSLContext, seconds: float
) -> Iterator[smtplib.SMTP]:
    """Connect; whatever the server does, the connection ends after a time."""
    step = min(STEP_SECONDS, seconds)
    server: smtplib.SMTP = (
        smtplib.SMTP_SSL(timeout=step, context=context)
        if settings.tls == "tls"
        else smtplib.SMTP(timeout=step)
    )
    # The constructor would connect before there is anything to end: so it is given no
    # host, and this is what it checks certificates by.
    server._host = settings.host  # type: ignore[attr-defined]  # noqa: SLF001

    def cut() -> None:
        if server.sock is not None:
            with suppress(OSError):
                server.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        server.connect(settings.host, settings.port)
        yield server
        with suppress(OSError, smtplib.SMTPException):  # the message is taken already
            server.quit()
    finally:
        timer.cancel()
        server.close()


def _password(settings: NoticeSettings, directory: Path) -> str:
    if settings.password_file is None:
        return ""
    path = directory / settings.password_file
    try:
        loose = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        text = read_input(path)[: _MOST_SECRET + 1].decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise NotMailed(f"notices.password_file cannot be read: {reason}") from None
    if loose:
        raise NotMailed("others may read notices.password_file: chmod 600")
    if not text or len(text) > _MOST_SECRET or not text.isprintable():
        raise NotMailed("notices.password_file is not one line with a password")
    return text
