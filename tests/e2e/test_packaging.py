"""What is installed is whole: the wheel and the sdist, used from outside the repository."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import dispatcher
from tests import builders

REPOSITORY = Path(dispatcher.__file__).parents[1]
PACKAGES = ("dispatcher", "connectors", "policies")


def build(source: Path, into: Path) -> tuple[Path, Path]:
    """Build as the build system of pyproject does, without the network."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (wheel,), (sdist,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"))


def names_in(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_every_file_of_the_packages_and_all_migrations(built):
    kept = subprocess.run(
        ["git", "ls-files", *PACKAGES, "alembic"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    wanted = {re.sub("^alembic/", "dispatcher/_alembic/", name) for name in kept}
    assert {name for name in wanted if name.endswith((".html", ".js", ".css"))}
    assert wanted - names_in(built[0]) == set()


def test_the_wheel_has_nothing_else(built):
    others = {
        name
        for name in names_in(built[0])
        if not name.startswith(tuple(f"{one}/" for one in PACKAGES))
        and ".dist-info/" not in name
    }
    assert others == set()
    assert any(name.endswith("licenses/LICENSE") for name in names_in(built[0]))


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    again, _ = build(source, tmp_path / "dist")
    assert names_in(again) == names_in(built[0])


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A program of its own: the wheel unpacked, the libraries of this environment."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=False)
    (site,) = place.glob("lib/python*/site-packages")
    zipfile.ZipFile(built[0]).extractall(site)
    libraries = [path for path in sys.path if path.endswith("-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    return place / "bin" / "python"


@pytest.fixture
def program(installed, tmp_path):
    """Run the installed program in a folder outside the repository."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {"DISPATCHER_ALLOW_ROOT": "1"}

    def run(*words, python=()):
        return subprocess.run(
            [installed, *(python or ("-m", "dispatcher")), *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_the_installed_program_does_the_first_hour_outside_the_repository(
    program, tmp_path
):
    place = program(python=("-c", "import dispatcher as d; print(d.__file__)"))
    assert not Path(place.strip()).is_relative_to(REPOSITORY)
    assert program("--version").strip() == "dispatcher 0.2.0"
    assert json.loads(program("--json"))["step"] == "no-store"
    program("init")
    assert json.loads(program("db", "status", "--json"))["ready"]
    (tmp_path / "policy.toml").write_text(builders.FORMS)
    (tmp_path / "forms.csv").write_text("id,name,disease\nf1,Ann,gout\nf2,Bob,flu\n")
    program("policy", "apply")
    program("records", "load", "forms.csv")
    program("workers", "add", "folder/ann", "folder/bob", "inhouse/cat", "--invite")
    assert json.loads(program("plan", "--json"))["verdict"] == "SOLVED"
    program("audit", "export", "evidence")
    assert program("audit", "verify", "evidence").startswith("VERIFIED")
    program("connectors", "new", "printer", "--output", "plugin")


def test_every_template_and_static_file_of_the_pages_is_found(program):
    """Each surface is built: its templates and files are read when it is made."""
    found = program(
        python=(
            "-c",
            "from dispatcher.surfaces.taskpage.pages import TaskPages\n"
            "from dispatcher.surfaces.console import pages\n"
            "from dispatcher.surfaces.demo import forms\n"
            "print('ok')",
        )
    )
    assert found == "ok\n"


# -- the image: no builder here, so its steps are read, and those that can be run are ----

IMAGE = (REPOSITORY / "Containerfile").read_text("utf-8")


def steps() -> list[tuple[str, str]]:
    """Instructions of the Containerfile with what they say, lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", IMAGE, flags=re.MULTILINE))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def last(instruction: str) -> str:
    return [said for name, said in steps() if name == instruction][-1]


def test_safety_47_the_image_runs_as_nobody_special_and_writes_in_its_volume_only():
    names = [name for name, _ in steps()]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "STOPSIGNAL",
             "HEALTHCHECK", "ENTRYPOINT", "CMD"}  # fmt: skip
    assert set(names) <= known
    uid = last("USER").partition(":")[0]
    assert uid.isdigit()
    assert int(uid) >= 1000
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert json.loads(last("VOLUME")) == ["/data"]
    environment = dict(word.split("=", 1) for word in shlex.split(last("ENV")))
    written = ("DISPATCHER_DIR", "NUMBA_CACHE_DIR", "STATE_DIRECTORY")
    assert all(environment[name].startswith("/data") for name in written)
    assert all(
        ":latest" not in said and ":" in said for n, said in steps() if n == "FROM"
    )


def test_the_image_installs_what_it_built_and_starts_the_daemon(built):
    runs = " ".join(said for name, said in steps() if name == "RUN")
    assert "--no-index" in runs
    assert json.loads(last("ENTRYPOINT")) == ["dispatcher"]
    assert json.loads(last("CMD")) == ["up"]
    (extras,) = set(re.findall(r"\[([a-z,]+)\]\"", runs))
    metadata = zipfile.ZipFile(built[0]).read(
        "sparsi_dispatcher-0.2.0.dist-info/METADATA"
    )
    provided = set(
        re.findall(r"^Provides-Extra: (\w+)", metadata.decode(), re.MULTILINE)
    )
    assert set(extras.split(",")) <= provided


def test_the_health_check_asks_the_admin_port_that_the_daemon_opens(tmp_path):
    from dispatcher.core.config import SurfaceSettings

    words = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    assert words[0] == "python"
    assert f"http://{SurfaceSettings().admin}/readyz" in words[2]
    with socket.socket() as nobody:  # who has a port of its own, and does not listen
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        asked = words[2].replace(SurfaceSettings().admin, f"127.0.0.1:{port}")
        done = subprocess.run(
            [sys.executable, words[1], asked], capture_output=True, check=False
        )
    assert done.returncode != 0


def test_the_compose_file_keeps_ports_on_loopback_and_secrets_in_files():
    services = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())["services"]
    ours = services["dispatcher"]
    assert ours["read_only"] is True
    assert ours["cap_drop"] == ["ALL"]
    assert ours["environment"]["DISPATCHER_STORE_FILE"].startswith("/run/secrets/")
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert not any("PASSWORD" in k and not k.endswith("_FILE")
                       for k in service.get("environment", ()))  # fmt: skip
