"""The artifact service: what ADK's own do, and what is more."""

import asyncio

import pytest
from adapters.google_adk.samples import APP, OF_ADA, PNG
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

TEXT = types.Part(text="hello")
PICTURE = types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png"))
LINK = types.Part(file_data=types.FileData(file_uri="gs://b/a", mime_type="text/csv"))
OF_1 = {**OF_ADA, "session_id": "1"}


def reference(path):
    uri = f"artifact://apps/{APP}/users/ada/{path}"
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type="text/plain"))


# As ADK's own


async def test_the_versions_of_a_file_are_counted_from_0(any_artifacts):
    file = {**OF_1, "filename": "a/b c.txt"}
    assert await any_artifacts.load_artifact(**file) is None
    assert await any_artifacts.list_versions(**file) == []
    given = [TEXT, PICTURE, types.Part(text="bye")]
    assert [await any_artifacts.save_artifact(**file, artifact=one) for one in given] == [0, 1, 2]
    assert await any_artifacts.list_versions(**file) == [0, 1, 2]
    assert await any_artifacts.load_artifact(**file) == given[-1]
    loaded = [await any_artifacts.load_artifact(**file, version=n) for n in range(3)]
    assert loaded == given
    assert await any_artifacts.load_artifact(**file, version=7) is None
    await any_artifacts.delete_artifact(**file)
    await any_artifacts.delete_artifact(**file)
    assert await any_artifacts.load_artifact(**file) is None
    assert await any_artifacts.save_artifact(**file, artifact=TEXT) == 0


async def test_files_of_a_user_are_those_of_all_sessions(any_artifacts):
    for name in ("user:b.txt", "a.txt", "a.txt/nested"):
        await any_artifacts.save_artifact(**OF_1, filename=name, artifact=TEXT)
    await any_artifacts.save_artifact(**OF_ADA, filename="user:c.txt", artifact=TEXT)

    async def keys(**where):
        return sorted(await any_artifacts.list_artifact_keys(app_name=APP, **where))

    shared = ["user:b.txt", "user:c.txt"]
    assert await keys(user_id="ada", session_id="1") == ["a.txt", "a.txt/nested", *shared]
    assert await keys(user_id="ada", session_id="2") == shared
    assert await keys(user_id="ada") == shared
    assert await keys(user_id="ben", session_id="1") == []
    for session_id in ("2", None):
        loaded = await any_artifacts.load_artifact(
            **OF_ADA, session_id=session_id, filename="user:b.txt"
        )
        assert loaded == TEXT
    # A file below another one is another file.
    await any_artifacts.save_artifact(**OF_1, filename="a.txt/nested", artifact=TEXT)
    assert await any_artifacts.list_versions(**OF_1, filename="a.txt") == [0]
    await any_artifacts.delete_artifact(**OF_1, filename="a.txt")
    assert await any_artifacts.list_versions(**OF_1, filename="a.txt/nested") == [0, 1]


async def test_versions_are_described(any_artifacts):
    for n, part in enumerate([TEXT, PICTURE]):
        await any_artifacts.save_artifact(
            **OF_1, filename="a", artifact=part, custom_metadata={"n": n}
        )
    listed = await any_artifacts.list_artifact_versions(**OF_1, filename="a")
    assert [(one.version, one.custom_metadata["n"]) for one in listed] == [(0, 0), (1, 1)]
    assert listed[1].mime_type == "image/png"
    assert len({one.canonical_uri for one in listed}) == 2
    assert await any_artifacts.get_artifact_version(**OF_1, filename="a") == listed[1]
    assert await any_artifacts.get_artifact_version(**OF_1, filename="a", version=0) == listed[0]
    assert await any_artifacts.get_artifact_version(**OF_1, filename="a", version=9) is None
    assert await any_artifacts.list_artifact_versions(**OF_1, filename="b") == []


async def test_a_part_may_be_given_as_a_dictionary(any_artifacts):
    given = {"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8="}}
    await any_artifacts.save_artifact(**OF_1, filename="a", artifact=given)
    loaded = await any_artifacts.load_artifact(**OF_1, filename="a")
    assert (loaded.inline_data.data, loaded.inline_data.mime_type) == (b"hello", "text/plain")


# Ours


async def test_every_kind_of_part_comes_back_equal(artifacts):
    for part in (
        *(TEXT, PICTURE, LINK, types.Part(text="")),
        types.Part(inline_data=types.Blob(data=b"", mime_type="text/plain")),
        types.Part(
            inline_data=types.Blob(
                data=bytes(range(256)) * 20_000, display_name="big", mime_type="a/b"
            )
        ),
        types.Part(text="said", thought=True, part_metadata={"k": [1]}),
    ):
        await artifacts.save_artifact(**OF_1, filename="a", artifact=part)
        assert await artifacts.load_artifact(**OF_1, filename="a") == part


async def test_a_file_that_a_rewind_removes_is_absent(artifacts):
    removed = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
    await artifacts.save_artifact(**OF_1, filename="a", artifact=TEXT)
    await artifacts.save_artifact(**OF_1, filename="a", artifact=removed)
    assert await artifacts.load_artifact(**OF_1, filename="a") is None
    assert await artifacts.load_artifact(**OF_1, filename="a", version=0) == TEXT


async def test_references_lead_to_what_they_name(artifacts):
    await artifacts.save_artifact(**OF_1, filename="a/b", artifact=TEXT)
    (told,) = await artifacts.list_artifact_versions(**OF_1, filename="a/b")
    refer = types.Part(
        file_data=types.FileData(file_uri=told.canonical_uri, mime_type="text/plain")
    )
    await artifacts.save_artifact(**OF_1, filename="user:r", artifact=refer)
    assert await artifacts.load_artifact(**OF_1, filename="user:r") == TEXT
    for n in range(7):
        path = f"artifacts/user:{n + 1}/versions/0"
        await artifacts.save_artifact(**OF_ADA, filename=f"user:{n}", artifact=reference(path))
    await artifacts.save_artifact(**OF_ADA, filename="user:7", artifact=TEXT)
    assert await artifacts.load_artifact(**OF_ADA, filename="user:2") == TEXT
    with pytest.raises(InputValidationError, match="more than 5"):
        await artifacts.load_artifact(**OF_ADA, filename="user:1")
    missing = reference("artifacts/user:none/versions/0")
    await artifacts.save_artifact(**OF_ADA, filename="user:m", artifact=missing)
    assert await artifacts.load_artifact(**OF_ADA, filename="user:m") is None


@pytest.mark.parametrize(
    "uri",
    [
        "artifact://nothing",
        "artifact://apps/other/users/ada/artifacts/user:a/versions/0",
        f"artifact://apps/{APP}/users/ben/artifacts/user:a/versions/0",
        f"artifact://apps/{APP}/users/ada/sessions/2/artifacts/a/versions/0",
    ],
)
async def test_no_reference_leaves_the_user_or_the_session(artifacts, uri):
    part = types.Part(file_data=types.FileData(file_uri=uri, mime_type="text/plain"))
    with pytest.raises(InputValidationError):
        await artifacts.save_artifact(**OF_1, filename="a", artifact=part)
    assert await artifacts.list_versions(**OF_1, filename="a") == []


async def test_ids_of_sessions_are_stripped_as_those_of_the_session_service(artifacts):
    padded = {**OF_ADA, "session_id": " 1\n"}
    await artifacts.save_artifact(**padded, filename="a", artifact=TEXT)
    for where in (OF_1, padded):
        assert await artifacts.load_artifact(**where, filename="a") == TEXT
        assert await artifacts.list_artifact_keys(**where) == ["a"]
    (told,) = await artifacts.list_artifact_versions(**OF_1, filename="a")
    assert (
        told.canonical_uri == f"artifact://apps/{APP}/users/ada/sessions/1/artifacts/a/versions/0"
    )


async def test_versions_saved_at_once_are_all_kept(artifacts):
    parts = [types.Part(text=str(n)) for n in range(12)]
    numbers = await asyncio.gather(
        *(artifacts.save_artifact(**OF_1, filename="a", artifact=one) for one in parts)
    )
    assert sorted(numbers) == list(range(12))
    for number, part in zip(numbers, parts, strict=True):
        assert await artifacts.load_artifact(**OF_1, filename="a", version=number) == part


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "user:../x", "", "user:", "C:x"])
async def test_a_name_that_is_a_path_elsewhere_is_refused(artifacts, name):
    with pytest.raises(InputValidationError, match="filename"):
        await artifacts.save_artifact(**OF_1, filename=name, artifact=TEXT)
    with pytest.raises(InputValidationError, match="filename"):
        await artifacts.load_artifact(**OF_1, filename=name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_id": "../ben"},
        {"session_id": "../2"},
        {"session_id": None},
        {"app_name": ""},
        {"user_id": "a\0"},
        {"artifact": types.Part()},
    ],
    ids=repr,
)
async def test_what_names_no_file_is_refused(artifacts, wrong):
    with pytest.raises(InputValidationError):
        await artifacts.save_artifact(**{**OF_1, "filename": "a", "artifact": TEXT, **wrong})
    assert await artifacts.list_artifact_keys(**OF_1) == []
