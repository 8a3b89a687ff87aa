"""The unit and the alerts that operators copy: they fit the program that is here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "howto" / "operators"
UNIT = (DOCS / "systemd" / "dispatcher.service").read_text(encoding="utf-8")
ALERTS = (DOCS / "prometheus" / "alerts.yml").read_text(encoding="utf-8")


def test_every_alert_says_how_bad_it_is_and_what_to_do():
    parts = ALERTS.split("- alert: ")[1:]
    for part in parts:
        assert re.search(r"severity: (page|ticket)", part), part
        assert "summary:" in part
        assert "fix:" in part


def test_safety_28_the_unit_has_what_hardens_it():
    for line in (
        "Type=notify",
        "UMask=0077",
        "StateDirectoryMode=0700",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "LimitCORE=0",
        "SystemCallFilter=@system-service",
        "Restart=on-failure",
    ):
        assert f"\n{line}\n" in UNIT
    assert re.search(r"^LoadCredential=dispatcher.key:", UNIT, re.MULTILINE)
    assert re.search(r"^RestartPreventExitStatus=.*\b11\b", UNIT, re.MULTILINE)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd here"
)
def test_systemd_takes_the_unit_as_it_is(tmp_path):
    unit = tmp_path / "dispatcher.service"
    unit.write_text(UNIT.replace("/usr/local/bin/dispatcher", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "dispatcher.service" not in done.stderr
