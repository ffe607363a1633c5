"""Versions of artifacts as key-value items, and back.

| namespace | key | item |
|---|---|---|
| `(app, "session", session, file)` | the version, in ten digits | the bytes, or what else the part is; its description |
| `(app, "user", file)` | the same | the same |
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from lance_context_core import Item

NAME = "adk-artifacts"
"""The set of key-value items."""

USER_PREFIX = "user:"
"""Begins the names of files that all sessions of a user share."""

_REMOVED = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""What ADK saves for a file that did not exist yet in a session that is rewound."""


def artifact_namespace(app_name: str, filename: str, session_id: str | None) -> tuple[str, ...]:
    """Where the versions of a file are. Raises InputValidationError for what names no file."""
    _check(app_name, "app_name")
    if not isinstance(filename, str):
        raise InputValidationError(f"filename={filename!r:.80}: give a text")
    name = filename.removeprefix(USER_PREFIX)
    _check(name, "filename")
    if name != filename:
        return app_name, "user", name
    if session_id is None:
        raise InputValidationError(
            f"filename={filename!r:.80} belongs to a session: give session_id, or begin the name "
            f"with {USER_PREFIX!r}"
        )
    return app_name, "session", session_of(session_id), name


def session_of(session_id: str) -> str:
    """The id of a session as the session service has it. Raises InputValidationError for no id."""
    _check(session_id, "session_id")
    return session_id.strip()


def file_names(namespaces: list[tuple[str, ...]]) -> list[str]:
    """The names of the files at namespaces, sorted."""
    names = {f"{USER_PREFIX}{one[-1]}" if one[1] == "user" else one[-1] for one in namespaces}
    return sorted(names)


def version_key(version: int) -> str:
    """The key of a version, in the order of the numbers."""
    return f"{version:010}"


def part_of(item: Item) -> types.Part | None:
    """The part of an item; None for one that stands for a removed file."""
    told = item.value or {}
    part = types.Part.model_validate(told["part"])
    if item.data is not None and part.inline_data is not None:
        part.inline_data.data = item.data
    return None if part in (_REMOVED, types.Part()) else part


def version_of(item: Item) -> ArtifactVersion:
    """The description of an item."""
    return ArtifactVersion.model_validate(dict((item.value or {})["version"]))


class NewArtifact:
    """A part that is about to be saved, checked before anything is written."""

    def __init__(
        self,
        artifact: types.Part | dict[str, Any],
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None,
        custom_metadata: Mapping[str, Any] | None,
        now: datetime,
    ) -> None:
        """Raises InputValidationError for what no artifact can be."""
        self._namespace = artifact_namespace(app_name, filename, session_id)
        self._where = {"app_name": app_name, "user_id": user_id, "filename": filename}
        is_of_session = session_id is not None and not filename.startswith(USER_PREFIX)
        self._session_id = session_of(session_id) if is_of_session and session_id else None
        self._metadata = dict(custom_metadata or {})
        self._now = now
        self._part = _part(artifact)
        self._mime_type = self._checked_type(session_id)

    def item(self, version: int) -> Item:
        """Its item under a number."""
        uri = artifact_util.get_artifact_uri(
            **self._where, version=version, session_id=self._session_id
        )
        described = ArtifactVersion(
            version=version,
            canonical_uri=uri,
            custom_metadata=self._metadata,
            create_time=self._now.timestamp(),
            mime_type=self._mime_type,
        )
        blob = self._part.inline_data
        data = None if blob is None else blob.data or b""
        return Item(
            namespace=self._namespace,
            key=version_key(version),
            value={"part": _without_bytes(self._part), "version": described.model_dump()},
            data=data,
            data_type=self._mime_type if data is not None else None,
        )

    def _checked_type(self, session_id: str | None) -> str | None:
        part = self._part
        if part.inline_data is not None:
            return part.inline_data.mime_type
        if part.text is not None:
            return "text/plain"
        if part.file_data is None:
            raise InputValidationError(
                "artifact has neither inline_data, text nor file_data: give a part with one of them"
            )
        if not artifact_util.is_artifact_ref(part):
            return part.file_data.mime_type
        scope = {name: self._where[name] for name in ("app_name", "user_id")}
        target(part, session_id=session_id, **scope)
        return None


def target(
    part: types.Part, *, app_name: str, user_id: str, session_id: str | None
) -> artifact_util.ParsedArtifactUri:
    """What a reference points to. Raises InputValidationError beyond the user's own artifacts."""
    uri = "" if part.file_data is None else part.file_data.file_uri or ""
    parsed = artifact_util.parse_artifact_uri(uri)
    if parsed is None:
        raise InputValidationError(f"{uri!r:.200} is no reference of an artifact")
    artifact_util.validate_artifact_reference_scope(
        app_name=app_name,
        user_id=user_id,
        session_id=None if session_id is None else session_id.strip(),
        parsed_uri=parsed,
    )
    return parsed


def _part(artifact: types.Part | dict[str, Any]) -> types.Part:
    try:
        part = ensure_part(artifact)
    except ValueError as error:
        raise InputValidationError(f"artifact is no part of a content: {error}") from error
    if not isinstance(part, types.Part):
        raise InputValidationError(f"artifact={artifact!r:.80}: give a Part, or a dictionary")
    return part


def _without_bytes(part: types.Part) -> dict[str, Any]:
    told: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    if "inline_data" in told:
        told["inline_data"].pop("data", None)
    return told


def _check(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise InputValidationError(f"{name}={value!r:.80}: give a text")
    artifact_util.validate_path_segment(value, name)
