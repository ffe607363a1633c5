"""Mails."""

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import decoded
from lance_context_core.documents.readers.html import HtmlReader
from lance_context_core.documents.reading import ReadDocument, Written
from lance_context_core.errors import UnreadableDocumentError


@frozen_by_name
class EmailReader:
    """Reads a mail: from whom, to whom, when, about what, and what it says; attachments are named."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the mail."""
        try:
            mail: Any = message_from_bytes(content, _class=EmailMessage, policy=policy.default)
            return _mail(mail, name)
        except UnreadableDocumentError:
            raise
        except Exception as error:  # of headers and parts that are none, anything
            raise UnreadableDocumentError(f"{name!r} cannot be read as a mail: {error}") from error


def _mail(mail: Any, name: str) -> ReadDocument:
    written = Written()
    said = {
        one: str(mail[one]).strip() for one in ("From", "To", "Cc", "Date", "Subject") if mail[one]
    }
    written.add("\n".join(f"{one}: {text}" for one, text in said.items()))
    body = mail.get_body(preferencelist=("plain", "html"))
    if body is not None:
        packed = body.get_payload(decode=True) or b""
        text = _in_charset(packed, body.get_content_charset(), name)
        if body.get_content_subtype() == "html":
            # A mark goes before what the page says: it is in this encoding now.
            text = HtmlReader().read(text.encode("utf-8-sig", "replace"), name=name).text
        written.add(text)
    attached = [one.get_filename() or one.get_content_type() for one in mail.iter_attachments()]
    properties: dict[str, Any] = {
        one.lower(): text for one, text in said.items() if one != "Subject"
    }
    properties |= {"attachments": attached} if attached else {}
    return written.document(title=said.get("Subject"), properties=properties)


def _in_charset(packed: bytes, charset: str | None, name: str) -> str:
    try:
        return packed.decode(charset or "ascii").replace("\r\n", "\n")
    except (LookupError, UnicodeError):
        return decoded(packed, name=name)[0].replace("\r\n", "\n")
