"""Files that the tests make themselves."""

import io
import re
import zipfile

import docx
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def pdf(*pages, title=None, outline=(), password=None):
    """A PDF with a page for each text, whose lines stand below each other; an empty one is blank."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(612, 792)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n") if line)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 72 720 Td {shown}ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    for name, number in outline:
        writer.add_outline_item(title=name, page_number=number - 1)
    if title:
        writer.add_metadata({"/Title": title, "/Author": "Ada"})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def with_objects(*objects):
    """A PDF of these objects, the first of them its root."""
    written, places = bytearray(b"%PDF-1.7\n"), []
    for number, one in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n" % number + one + b"\nendobj\n"
    start = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    written += b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        start,
    )
    return bytes(written)


def word(build):
    """A Word document that `build` was given to fill."""
    document = docx.Document()
    build(document)
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def archive(**parts):
    """A zip file; two underscores of a name are a slash, one a dot."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name.replace("__", "/").replace("_", "."), content)
    return made.getvalue()


def with_part(content, name, part):
    """A packed file with another content of one of its parts."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        for one in old.namelist():
            new.writestr(one, part if one == name else old.read(one))
    return made.getvalue()


def package(main, parts):
    """A file of Office, whose part `main` names the others beside it by the names that they have."""
    space = "http://schemas.openxmlformats.org/package/2006/relationships"

    def named(targets):
        each = (
            f'<Relationship Id="{id}" Type="urn:x/{type}" Target="{target}"/>'
            for id, type, target in targets
        )
        return f'<Relationships xmlns="{space}">{"".join(each)}</Relationships>'

    folder, _, last = main.rpartition("/")
    beside = [name.removeprefix(f"{folder}/") for name in parts if name != main]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("_rels/.rels", named([("r", "officeDocument", main)]))
        about = ((one, re.sub(r"\d*\.\w+$", "", one.rpartition("/")[2]), one) for one in beside)
        packed.writestr(f"{folder}/_rels/{last}.rels", named(about))
        for name, content in parts.items():
            packed.writestr(name, content)
    return made.getvalue()
