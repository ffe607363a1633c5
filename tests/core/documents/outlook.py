"""Mails of Outlook that the tests make themselves: OLE files, [MS-CFB], of the streams of [MS-OXMSG]."""

import struct
from datetime import UTC, datetime
from itertools import pairwise

_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_SMALL = 4096


def ole(streams):  # noqa: PLR0915 - a format from top to bottom
    """An OLE file of streams by path, such as `{"folder/stream": b"..."}`."""
    entries = [["Root Entry", 5, [], b""]]
    places = {"": 0}
    for path, content in streams.items():
        above = ""
        *folders, name = path.split("/")
        for folder in folders:
            here = f"{above}/{folder}"
            if here not in places:
                places[here] = len(entries)
                entries[places[above]][2].append(len(entries))
                entries.append([folder, 1, [], b""])
            above = here
        entries[places[above]][2].append(len(entries))
        entries.append([name, 2, [], content])
    sectors, fat, mini, mini_fat = [], [], bytearray(), []

    def stored(content):
        """The number of its first sector."""
        start = len(sectors)
        for at in range(0, len(content), 512):
            sectors.append(content[at : at + 512].ljust(512, b"\0"))
            fat.append(len(sectors))
        fat[-1] = _END
        return start

    starts = {}
    for number, (_, kind, _, content) in enumerate(entries):
        if kind == 2 and content:
            if len(content) < _SMALL:
                starts[number] = len(mini) // 64
                mini += content.ljust(-(-len(content) // 64) * 64, b"\0")
                n = len(mini) // 64
                mini_fat += [*range(starts[number] + 1, n), _END]
            else:
                starts[number] = stored(content)
    entries[0][3] = bytes(mini)
    if mini:
        starts[0] = stored(bytes(mini))
    packed_mini_fat = struct.pack(f"<{len(mini_fat)}I", *mini_fat)
    packed_mini_fat = packed_mini_fat.ljust(-(-len(packed_mini_fat) // 512) * 512, b"\xff")
    mini_fat_at = stored(packed_mini_fat) if mini_fat else _END
    right = {}
    for _, _, kids, _ in entries:
        right |= dict(pairwise(kids))
    directory = b""
    for number, (name, kind, kids, content) in enumerate(entries):
        named = name.encode("utf-16-le")
        directory += named.ljust(64, b"\0") + struct.pack("<HBB", len(named) + 2, kind, 1)
        directory += struct.pack(
            "<III", _FREE, right.get(number, _FREE), kids[0] if kids else _FREE
        )
        directory += bytes(16 + 4 + 16)
        directory += struct.pack("<IQ", starts.get(number, _END), len(content))
    directory_at = stored(directory)
    n_fat = 1
    while (len(fat) + n_fat) * 4 > n_fat * 512:
        n_fat += 1
    fat_at = len(sectors)
    table = [*fat, *[_FAT] * n_fat]
    packed = struct.pack(f"<{len(table)}I", *table).ljust(n_fat * 512, b"\xff")
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIII", 0, n_fat, directory_at, 0, _SMALL)
    head += struct.pack("<IIII", mini_fat_at, len(packed_mini_fat) // 512, _END, 0)
    head += struct.pack("<109I", *[*range(fat_at, fat_at + n_fat), *[_FREE] * (109 - n_fat)])
    return head + b"".join(sectors) + packed


def mail(texts=(), *, numbers=(), raw=(), files=(), within=(), head=32):
    """The streams of a mail: texts and bytes by the number of the property, and files by name."""
    streams = {f"__substg1.0_{number}001F": text.encode("utf-16-le") for number, text in texts}
    streams |= {f"__substg1.0_{property}": content for property, content in raw}
    entries = b"".join(struct.pack("<HHIQ", 0x40, number, 6, value) for number, value in numbers)
    streams["__properties_version1.0"] = bytes(head) + entries
    for number, (name, content) in enumerate(files):
        folder = f"__attach_version1.0_#{number:08X}"
        streams[f"{folder}/__properties_version1.0"] = bytes(8)
        streams[f"{folder}/__substg1.0_3707001F"] = name.encode("utf-16-le")
        streams[f"{folder}/__substg1.0_37010102"] = content
    for number, one in enumerate(within, len(files)):
        folder = f"__attach_version1.0_#{number:08X}"
        streams[f"{folder}/__properties_version1.0"] = bytes(8)
        for path, content in one.items():
            streams[f"{folder}/__substg1.0_3701000D/{path}"] = content
    return streams


def ticks(at):
    """A time as Outlook writes it."""
    return int((at - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000
