"""A real OpenID provider on the loopback: `oidc-provider` of npm, certified by OpenID."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from dispatcher.app.servers import free_ports
from tests.markets.installed import BUILD

VERSION = "8.8.1"

SERVER = """
import Provider from 'oidc-provider';
const { port, issuer, ...rest } = JSON.parse(process.argv[2]);
const provider = new Provider(issuer, {
  ...rest,
  cookies: { keys: ['a server that lives for seconds'] },
  features: { backchannelLogout: { enabled: true } },
});
for (const event of ['backchannel.error', 'server_error', 'grant.error']) {
  provider.on(event, (ctx, error) => console.log(event, error));
}
provider.listen(port, '127.0.0.1');
"""


def _installed() -> Path:
    place = BUILD / f"oidc-provider-{VERSION}"
    if not (place / "ready").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "package.json").write_text('{"type": "module"}')
        npm = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
        subprocess.run([*npm, f"oidc-provider@{VERSION}"], cwd=place, check=True)
        (place / "server.js").write_text(SERVER)
        (place / "ready").touch()
    return place


@contextmanager
def openid_server(place: Path, client: Mapping[str, object]) -> Iterator[str]:
    """Serve one client; yields the issuer."""
    (port,) = free_ports(1)
    issuer = f"http://localhost:{port}"
    given = {"port": port, "issuer": issuer, "clients": [dict(client)]}
    words = ["node", str(_installed() / "server.js"), json.dumps(given)]
    with (place / "provider.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                urlopen(f"{issuer}/.well-known/openid-configuration", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (place / "provider.log").read_text()
                assert time.monotonic() < until, "the provider does not start"
                time.sleep(0.1)
        yield issuer
    finally:
        process.terminate()
        process.wait(20)
