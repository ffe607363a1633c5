"""The process in which PDFium reads: `pdfium.py` starts it, and says what its lines mean.

It is run by its path and imports nothing of this package, so that it starts in some 70 ms.
"""

import json
import sys
import tempfile
from typing import IO, Any

_PART = 1 << 20


def main() -> None:
    """Answer what is asked, line by line, until there is nothing more."""
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # Whatever is printed is no answer.
    start = json.loads(asked.readline())
    sys.path[:] = start["path"]
    _limit(start["max_bytes"])
    import pypdfium2

    document: Any = None
    _answer(answers, True)
    for line in asked:
        request = json.loads(line)
        try:
            if "size" in request:
                if document is not None:
                    document.close()
                document = None
                file = _received(asked, request["size"])
                document = pypdfium2.PdfDocument(file, password=request["password"] or None)
                _answer(answers, True)
            else:
                _answer(answers, _text(document, request["page"]))
        except Exception:  # noqa: BLE001 - the reader knows another way
            _answer(answers, None)


def _received(asked: IO[bytes], size: int) -> IO[bytes]:
    """The file that follows, which has no name."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the document has it as long as it is open
    while size:
        part = asked.read(min(size, _PART))
        if not part:
            raise EOFError
        file.write(part)
        size -= len(part)
    file.seek(0)
    return file


def _text(document: Any, index: int) -> str:
    page = document[index]
    try:
        shown = page.get_textpage()
        try:
            return str(shown.get_text_range())
        finally:
            shown.close()
    finally:
        page.close()


def _answer(answers: IO[bytes], answer: object) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _limit(max_bytes: int) -> None:
    """Have no more memory than that, where the system can say so."""
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = max_bytes if most == resource.RLIM_INFINITY else min(max_bytes, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


if __name__ == "__main__":
    main()
