"""Where the store of a soak is: a directory, an S3 server, or Azurite; the latter behind a proxy."""

import base64
import hashlib
import hmac
import subprocess
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from core.conformance.backends import S3Server
from npm import MissingError, installed
from proofs.soak.fates import BAD_DAY, calm
from proofs.soak.proxy import Proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place for one store."""

    title: str
    store: dict
    """How it is opened where nothing gets lost."""
    under_fire: dict
    """How the processes open it."""
    pace_seconds: float
    """How long a task of a process rests between two batches, on average."""
    kill_seconds: float
    """How long a process lives to work, on average, before one of them is killed."""
    proxy: Proxy | None = None

    def calm_down(self):
        """Let every request go its way from now on."""
        if self.proxy is not None:
            self.proxy.fate = calm


@contextmanager
def local(directory, *, seed):
    store = {"uri": str(directory / "store")}
    yield Place(
        title="a directory", store=store, under_fire=store, pace_seconds=0.1, kill_seconds=3
    )


@contextmanager
def s3(directory, *, seed):
    with S3Server() as server:
        port = int(server.endpoint.rpartition(":")[2])
        with Proxy(port, BAD_DAY.fates(seed)) as proxy:
            backend = server.backend()
            options = dict(backend.storage_options)
            yield _behind(
                proxy, "S3 (moto)", backend.uri, options, options | {"aws_endpoint": proxy.endpoint}
            )


@contextmanager
def azure(directory, *, seed):
    with Azurite() as server, Proxy(server.port, BAD_DAY.fates(seed)) as proxy:
        uri = f"az://{server.CONTAINER}/store"
        options = server.options(server.port)
        yield _behind(proxy, "Azure Blob (Azurite)", uri, options, server.options(proxy.port))


def _behind(proxy, title, uri, options, options_under_fire):
    return Place(
        title=title,
        store={"uri": uri, "storage_options": options},
        under_fire={"uri": uri, "storage_options": options_under_fire},
        pace_seconds=0.3,
        kill_seconds=5,
        proxy=proxy,
    )


PLACES = {"local": local, "s3": s3, "azure": azure}


class Azurite:
    """Microsoft's emulator of Azure Blob storage at a free port, with one container, in memory.

    It is installed into `.venvs/azurite` when it is first needed.
    """

    CONTAINER = "soak"
    # The account that every installation of it has.
    _ACCOUNT = "devstoreaccount1"
    _KEY = (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    )

    def __enter__(self):
        self._process = subprocess.Popen(
            [
                *("node", str(_azurite()), "--inMemoryPersistence", "--skipApiVersionCheck"),
                *("--blobHost", "127.0.0.1", "--blobPort", "0", "--disableTelemetry", "--silent"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in self._process.stdout:
            if "successfully listens on" in line:
                self.port = int(line.strip().rpartition(":")[2])
                self._make_container()
                return self
        raise MissingError(f"Azurite ended with exit code {self._process.wait()}")

    def __exit__(self, *_):
        with self._process as process:
            process.kill()

    def options(self, port):
        return {
            "azure_storage_endpoint": f"http://127.0.0.1:{port}/{self._ACCOUNT}",
            "azure_storage_account_name": self._ACCOUNT,
            "azure_storage_account_key": self._KEY,
            "allow_http": "true",
        }

    def _make_container(self):
        about = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        resource = f"/{self._ACCOUNT}/{self.CONTAINER}"
        headers = "".join(f"{name}:{value}\n" for name, value in about.items())
        # A request that is not about content: twelve lines of it are empty.
        signed = f"PUT{12 * chr(10)}{headers}/{self._ACCOUNT}{resource}\nrestype:container"
        key = base64.b64decode(self._KEY)
        signature = base64.b64encode(hmac.digest(key, signed.encode(), hashlib.sha256)).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{resource}?restype=container",
            method="PUT",
            headers={**about, "Authorization": f"SharedKey {self._ACCOUNT}:{signature}"},
        )
        urllib.request.urlopen(request).close()  # noqa: S310


def _azurite():
    """The program, which is installed if it is missing or of another version."""
    packages = installed(Path(__file__).with_name("package.json"), "azurite")
    return packages / "azurite" / "dist" / "src" / "blob" / "main.js"
