"""The corpus is read where the second readers are: in an environment of its own, see tests/environments.py."""

from importlib.util import find_spec

LIBRARIES = ("pymupdf", "docx2txt", "pptx", "openpyxl", "bs4")

collect_ignore = [] if all(map(find_spec, LIBRARIES)) else ["test_corpus.py"]
