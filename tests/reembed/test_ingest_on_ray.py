"""The example that reads a folder on Ray: run as a user runs it, killed, and run again."""

import time

from reembed.running import PATIENCE_SECONDS, started

from lance_context_core import ContextStore

N_FILES = 60


def passages(uri):
    """What can be found, by the file that it is in."""
    with ContextStore.open(uri) as store:
        return {
            one.name: [chunk.text for chunk in store.documents.chunks(one.id)]
            for one in store.documents.list()
        }


def test_a_folder_read_on_ray_and_killed_goes_on_and_is_whole(tmp_path):
    uri, folder = tmp_path / "store", tmp_path / "folder"
    folder.mkdir()
    for number in range(N_FILES):
        text = f"# House {number}\n\n" + f"The door of house {number} is green.\n\n" * 100
        (folder / f"{number}.md").write_text(text)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    killed = started("ingest_on_ray.py", folder, "--store", uri)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (n_there := len(passages(uri))) > 0:
        assert killed.poll() is None, killed.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    assert n_there < N_FILES
    resumed = started("ingest_on_ray.py", folder, "--store", uri)
    said, problem = resumed.communicate(timeout=PATIENCE_SECONDS)
    assert resumed.returncode == 0, problem
    assert "'broken.pdf' cannot be read as PDF" in said
    assert f" new documents, {N_FILES} in all, 1 files refused" in said
    assert f"{N_FILES} new documents" not in said
    with ContextStore.open(tmp_path / "alone") as alone:
        alone.documents.add_many(sorted(folder.glob("*.md")))
    assert passages(uri) == passages(tmp_path / "alone")
