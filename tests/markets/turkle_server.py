"""A real Turkle server on the loopback, from a virtual environment of its own."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.app.servers import free_ports
from tests.markets.installed import installed

PASSWORD = "only for this test"

SITE = """
import os
SECRET_KEY = "a server that lives for seconds"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "site_urls"
INSTALLED_APPS = [
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
    "django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles",
    "django.contrib.humanize", "guardian", "turkle.apps.TurkleAppConfig",
    "rest_framework", "rest_framework.authtoken", "djaa_list_filter2",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["TURKLE_DB"],
    "OPTIONS": {"timeout": 60},
}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
REST_FRAMEWORK = {
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 100,
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
}
STATIC_URL = "/static/"
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
X_FRAME_OPTIONS = "SAMEORIGIN"
TURKLE_ANONYMOUS_TASKS = True
TURKLE_AUTO_ACCEPT_DEFAULT = True
TURKLE_SITE_NAME = "Turkle"
TURKLE_TEMPLATE_LIMIT = 64
TURKLE_EMAIL_ENABLED = False
"""
URLS = """
from django.contrib import admin
from django.urls import include, path
urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("django.contrib.auth.urls")),
    path("api/", include("turkle.api.urls")),
    path("", include("turkle.urls")),
]
"""
PEOPLE = """
import os
from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token
word = os.environ["TURKLE_PASSWORD"]
boss = User.objects.create_superuser("boss", password=word)
for name in os.environ["TURKLE_PEOPLE"].split():
    User.objects.create_user(name, password=word)
print("token", Token.objects.create(user=boss).key)
"""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like another."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Browser:
    """One person (or nobody) at the server's pages."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._jar = http.cookiejar.CookieJar()
        cookies = urllib.request.HTTPCookieProcessor(self._jar)
        self._plain = urllib.request.build_opener(cookies, NoRedirect)

    def get(self, path: str) -> tuple[int, str]:
        return self._open(urllib.request.Request(self.url + path))

    def post(self, path: str, **form: str) -> tuple[int, str]:
        word = next((c.value for c in self._jar if c.name == "csrftoken"), "") or ""
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": word, **form}).encode()
        return self._open(urllib.request.Request(self.url + path, data=body))

    def log_in(self, name: str) -> None:
        for _ in range(20):  # a busy server has no room for a session now and then
            self.get("/admin/login/")
            status, _ = self.post("/accounts/login/", username=name, password=PASSWORD)
            if status == 302:
                return
            time.sleep(0.5)
        raise AssertionError(f"{name} cannot log in")

    def _open(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with self._plain.open(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                where = error.headers.get("Location", "")
                return error.code, where + error.read().decode()


@dataclass(frozen=True)
class Turkle:
    url: str
    token: str
    database: Path
    manage: Callable[[str], None]  # runs a command of its administrator

    def api(self, path: str, method: str = "GET", **told: Any) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            method=method,
            data=json.dumps(told).encode() if told else None,
            headers={
                "authorization": f"TOKEN {self.token}",
                "content-type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def browser(self, name: str = "") -> Browser:
        made = Browser(self.url)
        if name:
            made.log_in(name)
        return made


@contextmanager
def turkle_server(
    place: Path, people: Sequence[str] = ("ann", "bob", "ann.lee@lab")
) -> Iterator[Turkle]:
    python = installed("turkle", "3.1.0", "setuptools<81")
    (place / "site_settings.py").write_text(SITE)
    (place / "site_urls.py").write_text(URLS)
    (port,) = free_ports(1)
    surroundings = {
        **os.environ, "PYTHONPATH": str(place), "TURKLE_DB": str(place / "turkle.db"),
        "DJANGO_SETTINGS_MODULE": "site_settings", "TURKLE_PASSWORD": PASSWORD,
        "TURKLE_PEOPLE": " ".join(people),
    }  # fmt: skip
    manage = [str(python), "-W", "ignore", "-m", "django"]
    run = {"env": surroundings, "cwd": place, "capture_output": True}
    subprocess.run([*manage, "migrate", "-v", "0"], **run, check=True)
    told = subprocess.run(
        [*manage, "shell", "-c", PEOPLE], **run, text=True, check=True
    ).stdout
    found = re.search(r"token (\w+)", told)
    assert found, told
    url = f"http://127.0.0.1:{port}"

    def told_to(command: str) -> None:
        subprocess.run([*manage, command], **run, check=True)

    words = [*manage, "runserver", "--noreload", "--insecure", f"127.0.0.1:{port}"]
    with (place / "turkle.log").open("wb") as log:
        process = subprocess.Popen(
            words, env=surroundings, cwd=place, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (place / "turkle.log").read_text()
                assert time.monotonic() < until, "Turkle does not start"
                time.sleep(0.1)
        yield Turkle(url, found[1], place / "turkle.db", told_to)
    finally:
        process.terminate()
        process.wait(20)
