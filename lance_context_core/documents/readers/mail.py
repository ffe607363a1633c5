"""Mails: as they are sent (EML), and as Outlook keeps them (MSG)."""

import re
from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_binary_file, policy
from email.message import EmailMessage
from typing import IO, Any

from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.archives import (
    Allowance,
    ContainerReader,
    InnerFile,
    inner_parts,
)
from lance_context_core.documents.readers.encodings import decoded
from lance_context_core.documents.readers.html import HtmlReader
from lance_context_core.documents.readers.rtf import RtfReader
from lance_context_core.documents.reading import ReadDocument, Written
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError


@frozen_by_name
class _MailReader(ContainerReader):
    """Reads mails of one kind."""

    attachments: bool = True
    """Whether attachments are read, too; each has its name as the section."""

    def _parts(self, file: IO[bytes], name: str, left: Allowance) -> Iterator[ReadDocument]:
        """Yields the mail, and its attachments."""
        try:
            mail, files = self._opened(file, name)
            yield from inner_parts(files if self.attachments else (), left, within=mail)
        except InvalidRequestError:
            raise
        except Exception as error:  # of headers and parts that are none, anything
            raise UnreadableDocumentError(f"{name!r} cannot be read as a mail: {error}") from error

    @abstractmethod
    def _opened(self, file: IO[bytes], name: str) -> tuple[ReadDocument, Iterator[InnerFile]]:
        """The mail, and the files in it."""


def _mail(said: dict[str, str], text: str, attached: list[str]) -> ReadDocument:
    """The head of a mail, and what it says."""
    written = Written()
    written.add("\n".join(f"{one}: {value}" for one, value in said.items()))
    written.add(text)
    properties: dict[str, Any] = {
        one.lower(): value for one, value in said.items() if one != "Subject"
    }
    properties |= {"attachments": attached} if attached else {}
    return written.document(title=said.get("Subject"), properties=properties)


@frozen_by_name
class EmailReader(_MailReader):
    """Reads a mail: from whom, to whom, when, about what, what it says, and its attachments.

    What is attached and cannot be read is told in the property `unread`, with the reason.
    """

    def _opened(self, file: IO[bytes], name: str) -> tuple[ReadDocument, Iterator[InnerFile]]:
        mail: Any = message_from_binary_file(file, _class=EmailMessage, policy=policy.default)
        said = {
            one: _header(mail, one) for one in ("From", "To", "Cc", "Date", "Subject") if mail[one]
        }
        body = mail.get_body(preferencelist=("plain", "html"))
        text = ""
        if body is None and not mail.is_multipart():
            # A calendar, say; or one whose parts have no mark between them.
            packed = mail.get_payload(decode=True)
            packed = packed or str(mail.get_payload()).encode("utf-8", "surrogateescape")
            is_text = mail.get_content_maintype() in {"text", "multipart"}
            text = _in_charset(packed, mail.get_content_charset(), name) if is_text else ""
        if body is not None:
            packed = body.get_payload(decode=True) or b""
            text = _in_charset(packed, body.get_content_charset(), name)
            if body.get_content_subtype() == "html":
                # A mark goes before what the page says: it is in this encoding now.
                text = HtmlReader().read(text.encode("utf-8-sig", "replace"), name=name).text
        attached = [
            (_called(one), one)
            for one in mail.iter_attachments()
            if one.get_content_type() not in _SIGNATURES
        ]
        files = (InnerFile(called, _content(one)) for called, one in attached)
        return _mail(said, text, [called for called, _ in attached]), files


_SIGNATURES = frozenset(
    ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
)


def _header(mail: Any, name: str) -> str:
    """A header; one with bytes that are no ASCII, and say not what they are, as a text with them."""
    raw = next((one for key, one in mail.raw_items() if key.lower() == name.lower()), "")
    packed = str(raw).encode("utf-8", "surrogateescape")
    if packed.isascii():
        return str(mail[name]).strip()
    return " ".join(decoded(packed, name=name)[0].split())


def _in_charset(packed: bytes, charset: str | None, name: str) -> str:
    try:
        return packed.decode(charset or "ascii").replace("\r\n", "\n")
    except (LookupError, UnicodeError):
        return decoded(packed, name=name)[0].replace("\r\n", "\n")


def _called(part: Any) -> str:
    if name := part.get_filename():
        return str(name)
    if part.get_content_type() == "message/rfc822" and isinstance(part.get_payload(), list):
        subject = str(part.get_payload(0)["Subject"] or "").strip()
        return f"{subject or 'mail'}.eml"
    return str(part.get_content_type())


def _content(part: Any) -> bytes | str:
    if part.get_content_type() == "message/rfc822" and isinstance(part.get_payload(), list):
        return bytes(part.get_payload(0))
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else "it is a part of the mail that holds others"


# Outlook: an OLE file of streams that are named by the numbers of properties, [MS-OXMSG] 2.1 and
# [MS-OXPROPS]; the last four digits are the type: 001F is UTF-16, 001E is bytes in a code page.

_SUBJECT, _FROM, _FROM_ADDRESS, _SMTP = "0037", "0C1A", "0C1F", "5D01"
_TO, _CC, _TEXT, _HTML, _RTF = "0E04", "0E03", "1000", "1013", "1009"
_FILE_NAME, _LONG_FILE_NAME, _SHOWN_NAME, _DATA = "3704", "3707", "3001", "3701"
_SENT, _ARRIVED, _CODE_PAGE, _INTERNET_CODE_PAGE = 0x0039, 0x0E06, 0x3FFD, 0x3FDE
_MAIL = f"__substg1.0_{_DATA}000D"
_ATTACHED = re.compile(r"__attach_version1\.0_#[0-9A-Fa-f]{8}")
_SINCE = datetime(1601, 1, 1, tzinfo=UTC)


@frozen_by_name
class OutlookReader(_MailReader):
    """Reads a mail as Outlook keeps it (MSG): as `EmailReader` does. Needs the extra `documents`.

    What is attached and cannot be read is told in the property `unread`, with the reason.
    """

    def _opened(self, file: IO[bytes], name: str) -> tuple[ReadDocument, Iterator[InnerFile]]:
        with importing("olefile", extra="documents", by="reading mails of Outlook"):
            import olefile
        mail = _Outlook(olefile.OleFileIO(file), [], head=32)
        files = list(mail.files())
        return _mail(mail.said(), mail.body(name), [one.name for one in files]), iter(files)


class _Outlook:
    """The properties of a mail, or of what is attached to it."""

    def __init__(self, ole: Any, path: list[str], *, head: int) -> None:
        """`head` is how many bytes stand before the properties that are numbers."""
        self._ole, self._path = ole, path
        self._fixed = self._fixed_ones(head)

    def said(self) -> dict[str, str]:
        sender, address = self.text(_FROM), self.text(_SMTP) or self.text(_FROM_ADDRESS)
        if "@" in address and address != sender:
            sender = f"{sender} <{address}>" if sender else address
        at = self.time(_SENT) or self.time(_ARRIVED)
        said = {
            "From": sender,
            "To": self.text(_TO),
            "Cc": self.text(_CC),
            "Date": at.isoformat() if at else "",
            "Subject": self.text(_SUBJECT),
        }
        return {one: value for one, value in said.items() if value}

    def text(self, number: str) -> str:
        if (packed := self.stream(f"{number}001F")) is not None:
            text = packed.decode("utf-16-le", "replace")
        else:
            packed = self.stream(f"{number}001E") or b""
            text = packed.decode(self._codec(_CODE_PAGE), "replace")
        return text.replace("\r\n", "\n").rstrip("\0").strip()

    def body(self, name: str) -> str:
        if text := self.text(_TEXT):
            return text
        if page := self.stream(f"{_HTML}0102"):
            text = page.decode(self._codec(_INTERNET_CODE_PAGE), "replace")
            return HtmlReader().read(text.encode("utf-8-sig", "replace"), name=name).text
        if packed := self.stream(f"{_RTF}0102"):
            return RtfReader().read(unpacked_rtf(packed), name=name).text
        return ""

    def files(self) -> Iterator[InnerFile]:
        """What is attached; a mail within this one as its text, and then what is attached to that."""
        depth = len(self._path)
        folders = {
            one[depth]
            for one in self._ole.listdir()
            if one[:depth] == self._path and len(one) > depth and _ATTACHED.fullmatch(one[depth])
        }
        for folder in sorted(folders):
            one = _Outlook(self._ole, [*self._path, folder], head=8)
            if self._ole.exists([*one._path, _MAIL]):
                mail = _Outlook(self._ole, [*one._path, _MAIL], head=24)
                said = mail.said()
                text = _mail(said, mail.body("a mail"), []).text
                yield InnerFile(
                    f"{said.get('Subject', 'mail')}.txt", text.encode("utf-8", "replace")
                )
                yield from mail.files()
            else:
                called = one.text(_LONG_FILE_NAME) or one.text(_FILE_NAME) or one.text(_SHOWN_NAME)
                content = one.stream(f"{_DATA}0102")
                yield InnerFile(
                    called or "untitled", "it has no bytes" if content is None else content
                )

    def time(self, number: int) -> datetime | None:
        n_ticks = self._fixed.get(number, 0)
        try:
            return _SINCE + timedelta(microseconds=n_ticks // 10) if n_ticks else None
        except OverflowError:
            return None

    def stream(self, property: str) -> bytes | None:
        path = [*self._path, f"__substg1.0_{property}"]
        if not self._ole.exists(path):
            return None
        content: bytes = self._ole.openstream(path).read()
        return content

    def _codec(self, number: int) -> str:
        page = self._fixed.get(number, 1252) & 0xFFFFFFFF
        codec = "utf-8" if page == 65001 else f"cp{page}"
        try:
            b"".decode(codec)
        except LookupError:
            return "cp1252"
        return codec

    def _fixed_ones(self, head: int) -> dict[int, int]:
        """The properties that are numbers and times: 16 bytes each, behind a head."""
        path = [*self._path, "__properties_version1.0"]
        content = self._ole.openstream(path).read() if self._ole.exists(path) else b""
        entries = (content[at : at + 16] for at in range(head, len(content) - 15, 16))
        return {
            int.from_bytes(one[2:4], "little"): int.from_bytes(one[8:], "little") for one in entries
        }


# Rich text in a mail is packed, [MS-OXRTFCP] 2.1: runs of what was written before, or of what all begin with.

_ALL_BEGIN_WITH = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_WINDOW = 4096


def unpacked_rtf(packed: bytes) -> bytes:
    """The rich text that a mail of Outlook holds. Raises ValueError if it is packed in no known way."""
    kind, content = packed[8:12], packed[16:]
    if kind == b"MELA":
        return content
    if kind != b"LZFu":
        raise ValueError("its rich text is packed in an unknown way")
    window = bytearray(_ALL_BEGIN_WITH.ljust(_WINDOW, b"\0"))
    made, write, at = bytearray(), len(_ALL_BEGIN_WITH), 0
    n_bytes = int.from_bytes(packed[4:8], "little")

    def put(one: int) -> None:
        nonlocal write
        window[write] = one
        write = (write + 1) % _WINDOW
        made.append(one)

    while at < len(content) and len(made) < n_bytes:
        flags, at = content[at], at + 1
        for bit in range(8):
            if at >= len(content) or len(made) >= n_bytes:
                break
            if not flags >> bit & 1:
                put(content[at])
                at += 1
                continue
            run = int.from_bytes(content[at : at + 2], "big")
            at += 2
            start, length = run >> 4, (run & 15) + 2
            if start == write:
                return bytes(made)
            for offset in range(length):
                put(window[(start + offset) % _WINDOW])
    return bytes(made)
