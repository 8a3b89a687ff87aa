"""The operator's settings: ``dispatcher.toml``, read once and checked.

Precedence: command line over ``DISPATCHER_*`` environment over file over default. No
setting contains a secret; secrets come from files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import time
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from dispatcher.core.errors import Invalid
from dispatcher.core.input_files import read_input
from policies.model.objective import Preference

CONFIG_NAME = "dispatcher.toml"
POLICY_NAME = "policy.toml"
STORE_NAME = "dispatcher.db"
KEY_NAME = "dispatcher.key"


def _without_nul(text: str) -> str:
    if "\0" in text:
        msg = "a name of a file or folder has no NUL character in it"
        raise ValueError(msg)
    return text


PathText = Annotated[str, AfterValidator(_without_nul)]
"""Text that may name a file or a folder."""
Seconds = Annotated[float, Field(gt=0, le=10**9)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TickSettings(_Section):
    """Seconds between two ticks of each stage of the daemon.

    ``leading`` is how often the lease is renewed; it ends after 8 s without.
    """

    intake: Seconds = 5.0
    planning: Seconds = 5.0
    booking: Seconds = 2.0
    sending: Seconds = 1.0
    serving: Seconds = 5.0
    collecting: Seconds = 2.0
    assembly: Seconds = 2.0
    paying: Seconds = 5.0
    sealing: Seconds = 60.0
    retention: Seconds = 3600.0
    reconciling: Seconds = 86_400.0
    comparing: Seconds = 900.0
    sampling: Seconds = 60.0
    watching: Seconds = 60.0
    notices: Seconds = 5.0
    leading: Annotated[float, Field(gt=0, le=5)] = 2.0


class PlanningSettings(_Section):
    """How the daemon plans.

    For ``seconds`` after a plan was constructed, better ones are searched for; 0 applies
    it as it is. Where not everything has a plan (E701, E702) no record is begun that is
    new; ``partial`` begins those that have one, and holds back the rest. Once workers
    came or went, a plan replaces the one in force if it is worth more by the share
    ``min_gain``. ``prefer`` says which of the plans that place the most fields is wanted.
    """

    prefer: Preference = Preference.UTILITY
    seconds: Annotated[float, Field(ge=0, le=86_400)] = 3.0
    partial: bool = False
    min_gain: Annotated[float, Field(ge=0, le=1)] = 0.01


class TaskSettings(_Section):
    """Leases and retries of tasks.

    ``lease`` is how long a worker of the task page has for one task (seconds);
    ``extensions`` is how often the worker may extend it by the same time. ``apart`` is
    the minimum time between two tasks of one record for one worker, unless another task
    came between; for ``patience`` seconds a new plan's tasks are kept for the workers
    they were planned for. ``attempts`` is how often a message is sent before it is
    given up. ``undo`` is how many seconds an answer can be taken back on the task page;
    until five seconds later nothing is made of it. 0 switches it off. ``choose`` is
    among how many kinds of work a worker of the task page may choose; 0: all is assigned.
    """

    lease: Seconds = 600.0
    extensions: Annotated[int, Field(ge=0, le=1000)] = 10
    apart: Annotated[float, Field(ge=0, le=10**9)] = 300.0
    patience: Annotated[float, Field(ge=0, le=10**9)] = 900.0
    attempts: Annotated[int, Field(ge=1, le=1000)] = 12
    undo: Annotated[float, Field(ge=0, le=600)] = 10.0
    choose: Annotated[int, Field(ge=0, le=20)] = 0


class QualitySettings(_Section):
    """Made-up questions, and the accuracy below which a worker is stopped.

    ``gold`` is the share of new tasks that are made up, where a field has such
    questions left. A worker whose accuracy is below ``floor`` after ``floor_after``
    answers is stopped until an operator looks; 0 stops nobody. It must be below the
    accuracy assumed of an unknown worker (0.8).
    """

    gold: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    floor: Annotated[float, Field(ge=0, lt=0.8)] = 0.0
    floor_after: Annotated[int, Field(ge=1, le=10**6)] = 20


class SessionSettings(_Section):
    """How long a worker of the task page stays signed in.

    A session is over after ``idle`` seconds without a request, and ``absolute`` seconds
    after it was opened in any case; then the worker opens the invite link again.
    ``shared_browser`` says what happens when two accounts arrive with one browser and
    may be one person: they are recorded (``note``), the second one is refused
    (``refuse``), or they become one worker if the visitor says that both accounts are
    theirs (``merge``).
    """

    idle: Seconds = 1800.0
    absolute: Seconds = 43_200.0
    shared_browser: Literal["note", "refuse", "merge"] = "note"


def split_address(address: str, where: str) -> tuple[str, int]:
    """Split ``HOST:PORT``.

    Raises
    ------
    ValueError
        If it is not of that form, or the port is not 0..65535.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        msg = f"{where} is {address!r}, expected HOST:PORT"
        raise ValueError(msg)
    return host.strip("[]"), int(port)


@lru_cache(1000)  # each request asks
def is_loopback(host: str) -> bool:
    """Whether an address or a name is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


LOOPBACK: Final = ("127.0.0.1", "::1")


class SurfaceSettings(_Section):
    """Where the servers listen (``HOST:PORT``), all on loopback by default.

    ``worker_url`` is how workers reach the task page from outside, ``operator_url`` how
    operators reach the console. ``api`` serves the REST API at the operators' address,
    under ``/api/v1``, to whoever has a token. ``behind_proxy`` declares a TLS proxy in front of the
    servers: only then may they listen on other addresses, and only then are its
    ``X-Forwarded-*`` headers trusted. ``proxies`` are the addresses it comes from: this
    machine's own, where none are given. ``contact`` is whom workers may ask, on every
    task page.
    """

    operators: str = "127.0.0.1:8420"
    workers: str = "127.0.0.1:8421"
    admin: str = "127.0.0.1:9464"
    worker_url: str | None = None
    operator_url: str | None = None
    api: bool = False
    behind_proxy: bool = False
    proxies: Annotated[tuple[str, ...], Field(max_length=50)] = LOOPBACK
    contact: Annotated[str, Field(max_length=200)] = ""

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        for name in ("operators", "workers", "admin"):
            host, _ = split_address(getattr(self, name), f"surfaces.{name}")
            if not is_loopback(host) and not self.behind_proxy:
                msg = (
                    f"surfaces.{name} listens on {host}, which others can reach, "
                    "without TLS: put a proxy with TLS before it and set "
                    "behind_proxy = true"
                )
                raise ValueError(msg)
        for address in self.proxies:
            try:
                ip_address(address)
            except ValueError:
                msg = f"surfaces.proxies has {address!r}, expected IP addresses"
                raise ValueError(msg) from None
        for name in ("worker_url", "operator_url"):
            url = urlsplit(getattr(self, name) or "https://none")
            known = url.scheme in ("http", "https")
            if not known or not url.hostname or "@" in url.netloc:
                msg = f"surfaces.{name} is no http(s)://HOST/ without a user"
                raise ValueError(msg)
        return self

    @property
    def believed(self) -> tuple[str, ...]:
        """Addresses of proxies whose headers are believed; none where there is none."""
        return self.proxies if self.behind_proxy else ()

    @property
    def task_page(self) -> str:
        """Where workers find the task page."""
        return self.worker_url or f"http://{self.workers}"


class LedgerSettings(_Section):
    """Where the ledger is shipped: a folder outside the store, best on another disk.

    ``ship = ""`` ships nothing. ``anchor`` is a file to which every seal's root is
    appended. A new file is begun after ``segment_mib`` mebibytes.
    """

    ship: PathText = "ledger"
    anchor: PathText | None = None
    segment_mib: Annotated[int, Field(ge=1, le=1024)] = 16


def parse_time(text: str, where: str) -> time:
    """Read ``HH:MM``.

    Raises
    ------
    ValueError
        It is not of that form.
    """
    hours, _, minutes = text.strip().partition(":")
    digits = len(hours) == len(minutes) == 2 and (hours + minutes).isdecimal()
    if not (digits and text.isascii() and int(hours) < 24 and int(minutes) < 60):
        msg = f"{where} is {text!r}, expected HH:MM"
        raise ValueError(msg)
    return time(int(hours), int(minutes))


_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"]{1,64}@[^\s@<>,;:\"]{1,253}", re.ASCII)


class NoticeSettings(_Section):
    """Whom the daemon tells what by mail, when, and how; webhooks are in the store.

    Without ``host`` no mail is sent. ``tls`` is ``none`` for a server on this machine
    only. During ``quiet`` (``HH:MM-HH:MM``, by the clocks of ``zone``) only what cannot
    wait is mailed; the rest comes in one message at its end, or at ``digest`` (``HH:MM``)
    each day. ``near`` is the share of a limit from which on it counts as near.
    Every ``heartbeat`` seconds webhooks of ``daemon.alive`` are called; 0: never.
    ``allow_private`` lists hosts of the own network that webhooks may lead to.
    """

    host: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9.:-]*$")] = ""
    port: Annotated[int, Field(ge=1, le=65_535)] = 587
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: Annotated[str, Field(max_length=200)] = ""
    password_file: PathText | None = None
    sender: str = ""
    to: Annotated[tuple[str, ...], Field(max_length=50)] = ()
    zone: str = "UTC"
    quiet: str = ""
    digest: str = ""
    near: Annotated[float, Field(gt=0, le=1)] = 0.9
    heartbeat: Annotated[float, Field(ge=0, le=86_400)] = 0.0
    allow_private: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _mail(self) -> Self:
        for address in (self.sender, *self.to) if self.host else ():
            if not _ADDRESS.fullmatch(address):
                msg = "notices.sender and notices.to are addresses such as ops@example.org"
                raise ValueError(msg)
        if self.host and not self.to:
            msg = "notices.to names nobody, though notices.host is set"
            raise ValueError(msg)
        if self.tls == "none" and self.host and not is_loopback(self.host):
            msg = f'notices.tls is "none", and {self.host} is not this machine'
            raise ValueError(msg)
        if bool(self.user) != bool(self.password_file):
            msg = "notices.user and notices.password_file go together"
            raise ValueError(msg)
        if 0 < self.heartbeat < 10:
            msg = "notices.heartbeat is below 10 s"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _times(self) -> Self:
        try:
            ZoneInfo(self.zone)
        except (ValueError, OSError, ZoneInfoNotFoundError):
            msg = "notices.zone is no time zone, such as Europe/Berlin"
            raise ValueError(msg) from None
        _ = self.quiet_hours, self.digest_time  # read once, to be refused here
        return self

    @property
    def quiet_hours(self) -> tuple[time, time] | None:
        """Beginning and end; None where there are none."""
        if not self.quiet:
            return None
        first, _, last = self.quiet.partition("-")
        begin = parse_time(first, "notices.quiet")
        end = parse_time(last, "notices.quiet")
        return None if begin == end else (begin, end)

    @property
    def digest_time(self) -> time | None:
        """When what can wait is mailed each day; None: as it comes."""
        return parse_time(self.digest, "notices.digest") if self.digest else None


class OidcSettings(_Section):
    """An OpenID Connect provider that signs operators in.

    Without ``issuer`` there is none. ``client_secret_file`` is one line, mode 0600;
    without it the client is public, with PKCE alone. ``name`` is what the page of
    sign-in calls the provider. ID tokens must be signed by ``algorithm``. ``acr`` are
    the levels of sign-in that are taken; empty: all. ``passwords`` says whether users may
    sign in by password too. ``allow_private`` lists hosts of the own network that the
    provider may be at, also without TLS.
    """

    issuer: Annotated[str, Field(max_length=500)] = ""
    client_id: Annotated[str, Field(max_length=255, pattern=r"^[!-~]*$")] = ""
    client_secret_file: PathText | None = None
    name: Annotated[str, Field(min_length=1, max_length=60)] = "single sign-on"
    algorithm: Literal[
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
        "ES256", "ES384", "ES512",
    ] = "RS256"  # fmt: skip
    acr: Annotated[tuple[str, ...], Field(max_length=20)] = ()
    passwords: bool = True
    allow_private: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _provider(self) -> Self:
        if not self.issuer:
            if not self.passwords:
                msg = "oidc.passwords is false, and oidc.issuer names nobody else"
                raise ValueError(msg)
            return self
        url = urlsplit(self.issuer)
        listed = url.hostname in {one.lower() for one in self.allow_private}
        secure = url.scheme == "https" or (url.scheme == "http" and listed)
        if not secure or not url.hostname or "@" in url.netloc or url.query:
            msg = "oidc.issuer is no https://HOST/PATH without user and query"
            raise ValueError(msg)
        if not self.client_id:
            msg = "oidc.client_id is missing: the provider gives it"
            raise ValueError(msg)
        return self


class Config(_Section):
    """The whole of ``dispatcher.toml``."""

    store: PathText = STORE_NAME
    policy: PathText = POLICY_NAME
    key_file: PathText = KEY_NAME
    cache_mib: Annotated[int, Field(ge=16, le=65_536)] = 256  # of one process, SQLite
    plans: Literal["auto", "manual"] = "auto"
    inbox: PathText | None = None  # a folder whose files are loaded by the daemon
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    ticks: TickSettings = TickSettings()
    planning: PlanningSettings = PlanningSettings()
    tasks: TaskSettings = TaskSettings()
    quality: QualitySettings = QualitySettings()
    sessions: SessionSettings = SessionSettings()
    surfaces: SurfaceSettings = SurfaceSettings()
    ledger: LedgerSettings = LedgerSettings()
    notices: NoticeSettings = NoticeSettings()
    oidc: OidcSettings = OidcSettings()
    connectors: Mapping[str, Mapping[str, PathText]] = Field(
        default_factory=lambda: {"folder": {"spool": "spool"}, "inhouse": {}}
    )


def load_config(
    directory: Path, environment: Mapping[str, str], *, file: Path | None = None
) -> Config:
    """Read the settings of a directory.

    Parameters
    ----------
    directory : Path
        The directory of ``dispatcher.toml``; without the file the defaults apply.
    environment : Mapping[str, str]
        ``DISPATCHER_STORE``, ``DISPATCHER_POLICY``, ``DISPATCHER_PLANS`` and
        ``DISPATCHER_KEY_FILE`` override the file.
    file : Path, optional
        Another file to read; it must exist.

    Raises
    ------
    Invalid
        If the file is not TOML, or a key is unknown or out of range.
    """
    path = file if file is not None else directory / CONFIG_NAME
    data: dict[str, object] = {}
    if file is not None or path.exists():
        data = _read(path)
    for key in ("store", "policy", "plans", "key_file"):
        value = environment.get(f"DISPATCHER_{key.upper()}")
        if value:
            data[key] = value
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise Invalid(
            f"{path}: {place}: {first['msg']}",
            why="the settings are checked before anything starts",
            fix="correct the key, or delete it to use the default",
        ) from None


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_input(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # also a number beyond all reason
        detail = (
            str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not TOML"
        )
        raise Invalid(
            f"{path}: {detail}",
            why="the settings file is not valid TOML 1.0 in UTF-8",
            fix="correct the syntax at the place named",
        ) from None
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror}",
            why="the settings file cannot be read",
            fix="check the path and its permissions",
        ) from None


def store_location(config: Config, directory: Path) -> str:
    """Return the URL or absolute path of the configured store."""
    if "://" in config.store:
        return config.store
    return str((directory / config.store).absolute())


def key_file_location(
    config: Config, directory: Path, environment: Mapping[str, str]
) -> tuple[Path, bool]:
    """Return the path of the key file, and whether it is a credential of systemd.

    ``DISPATCHER_KEY_FILE`` comes first, then a credential ``dispatcher.key``
    (``LoadCredential``), then the settings.
    """
    given = environment.get("DISPATCHER_KEY_FILE")
    credentials = environment.get("CREDENTIALS_DIRECTORY")
    if credentials:
        place = Path(credentials)
        if given and place in Path(given).absolute().parents:
            return Path(given).absolute(), True
        if not given and (place / KEY_NAME).exists():
            return place / KEY_NAME, True
    return (directory / config.key_file).absolute(), False


def read_private(
    file: Path,
    *,
    holds: str = "the store's URL",
    fix: str = "name another file in DISPATCHER_STORE_FILE, or unset it",
) -> str:
    """Read the single line of a file with a secret, such as a URL with a password.

    Parameters
    ----------
    file : Path
    holds : str
        What the secret is, for the message.
    fix : str
        What to do about a file that cannot be read.

    Raises
    ------
    Invalid
        If it cannot be read, is empty, or others than its owner may read it.
    """
    try:
        loose = file.stat().st_mode & 0o077
        text = read_input(file).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Invalid(
            f"{file}: {reason}",
            why=f"the file that holds {holds} cannot be read",
            fix=fix,
        ) from None
    if loose or not text:
        raise Invalid(
            f"{file}: {'others may read it' if loose else 'it is empty'}",
            why=f"the file holds a secret: {holds}, one line, for its owner only",
            fix=f"chmod 600 {file}" if loose else "write it into the file",
        )
    return text


STARTER = """\
# Settings of the dispatcher in this directory. Every key may be left out.
store  = "dispatcher.db"      # a file (SQLite), or postgresql://user@host/name
policy = "policy.toml"
plans  = "auto"               # "manual": new records wait for `dispatcher plan apply`
key_file = "dispatcher.key"   # opens the values; keep a copy elsewhere, apart from backups
# inbox = "inbox"             # files put here are loaded by `dispatcher up`

# [ledger]
# ship = "/mnt/other/ledger"  # the ledger is kept here too; default: ledger/ beside this

[connectors.folder]
spool = "spool"               # one directory a worker: tasks out, answers back

[connectors.inhouse]          # our own task page; workers get invite links
"""
"""Text of the file that ``dispatcher init`` writes."""
