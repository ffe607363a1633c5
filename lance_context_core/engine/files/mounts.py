"""Which file system a directory is on: whether other machines have it too."""

import os
import re
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
"""Where Linux tells it; nothing is known of other systems."""

_SHARED = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|afs|ceph|lustre|glusterfs|beegfs|gpfs|ocfs2|gfs2"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|goofys|rclone|ceph|blobfuse2?|juicefs|mount-s3)"
)
"""Those that several machines may have at once. There is no memory that these would share."""


def is_shared(place: Path) -> bool:
    """Whether other machines may have the directory `place` too, which need not be there yet."""
    there = os.path.realpath(place)
    points = {point: kind for point, kind in _mounts() if _is_within(there, point)}
    # What was mounted last on a point hides what is below it.
    return bool(points) and _SHARED.fullmatch(points[max(points, key=len)]) is not None


def _mounts() -> list[tuple[str, str]]:
    """Where something is mounted, and what sort of file system it is, in the order of mounting."""
    try:
        # A path may hold all else that ends a line for Python.
        lines = _TABLE.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return []
    found = []
    for line in lines:
        about, _, rest = line.partition(" - ")
        if rest:
            point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), about.split(" ")[4])
            found.append((point, rest.split(" ")[0]))
    return found


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
