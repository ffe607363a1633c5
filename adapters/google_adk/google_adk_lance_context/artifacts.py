"""ADK's artifact service over the store: files by name, each with its versions."""

from collections.abc import Sequence
from typing import Any

from google.adk.artifacts.artifact_util import is_artifact_ref, validate_path_segment
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from google_adk_lance_context._artifact_items import (
    NAME,
    NewArtifact,
    artifact_namespace,
    file_names,
    part_of,
    session_of,
    target,
    version_key,
    version_of,
)
from google_adk_lance_context._scopes import Users, handle_of, refusing, text_of
from lance_context_core import AlreadyExistsError, AsyncKeyValues, Item
from lance_context_core.adapting import HandleOwner, StoreLike, retried

_MOST_REFERENCES = 5
"""How many references of artifacts to others are followed, as in ADK."""


class LanceArtifactService(HandleOwner, BaseArtifactService):
    """Artifacts of ADK in a store: `Runner(…, artifact_service=LanceArtifactService("memory"))`.

    - The versions of a file are 0, 1, 2 …, also if several processes save it at once.
    - A file belongs to a session, and one whose name begins with `user:` to all sessions of its
      user in an app. Files of two users never meet.

    Bad arguments raise ADK's InputValidationError before anything is written.
    """

    def __init__(self, store: StoreLike, *, tenant: str | None = None) -> None:
        """Wraps `store`: an open one, which stays open, or a URI, which `close` closes again.

        `tenant` is the owner of all of it.
        """
        self._handle = handle_of(store, None)
        self._users = Users(self._handle, agent_id=None, tenant=tenant)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Saves a new version of a file; returns its number, 0 for the first one.

        The artifact is a part with bytes, a text or the URI of a file, or a reference to another
        artifact of the user.
        """
        new = NewArtifact(
            artifact,
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            session_id=session_id,
            custom_metadata=custom_metadata,
            now=self._handle.now(),
        )
        kv = self._kv(user_id)
        namespace = artifact_namespace(app_name, filename, session_id)

        async def attempt() -> int:
            there = await _versions(kv, namespace, newest=1)
            version = there[-1] + 1 if there else 0
            await kv.write(adds=[new.item(version)])
            return version

        with refusing():
            return await retried(attempt, on=AlreadyExistsError)

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Returns a version of a file, or the newest one; None if absent.

        References to other artifacts are followed, five at most.
        """
        for _ in range(_MOST_REFERENCES + 1):
            item = await self._item(app_name, user_id, filename, session_id, version)
            part = None if item is None else part_of(item)
            if part is None or not is_artifact_ref(part):
                return part
            found = target(part, app_name=app_name, user_id=user_id, session_id=session_id)
            filename, session_id, version = found.filename, found.session_id, found.version
        raise InputValidationError(
            f"filename={filename!r:.80}: more than {_MOST_REFERENCES} artifacts refer to each other"
        )

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Returns the names of a user's files, sorted, and those of a session if one is given."""
        validate_path_segment(text_of(app_name, "app_name"), "app_name")
        prefixes: list[tuple[str, ...]] = [(app_name, "user")]
        if session_id is not None:
            prefixes.append((app_name, "session", session_of(session_id)))
        with refusing():
            kv = self._kv(user_id)
            keys = [key for prefix in prefixes for key in await kv.keys(prefix=prefix)]
        return file_names([namespace for namespace, _ in keys])

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Deletes all versions of a file, if it exists; older versions of the store keep them."""
        namespace = artifact_namespace(app_name, filename, session_id)
        with refusing():
            kv = self._kv(user_id)
            keys = [(namespace, version_key(one)) for one in await _versions(kv, namespace)]
            if keys:
                await kv.delete(keys)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Returns the versions of a file, in order; none if it does not exist."""
        namespace = artifact_namespace(app_name, filename, session_id)
        with refusing():
            return await _versions(self._kv(user_id), namespace)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Returns the descriptions of a file's versions, in order; none if it does not exist."""
        namespace = artifact_namespace(app_name, filename, session_id)
        with refusing():
            items = await self._kv(user_id).list(namespace=namespace, include_data=False)
        return [version_of(one) for one in items]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Returns the description of a version, or of the newest one; None if absent."""
        item = await self._item(app_name, user_id, filename, session_id, version)
        return None if item is None else version_of(item)

    # Helpers

    async def _item(
        self,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None,
        version: int | None,
    ) -> Item | None:
        namespace = artifact_namespace(app_name, filename, session_id)
        kv = self._kv(user_id)
        with refusing():
            if version is None:
                version = next(iter(await _versions(kv, namespace, newest=1)), -1)
            if isinstance(version, bool) or not isinstance(version, int):
                raise InputValidationError(f"version={version!r:.80}: give a number, or None")
            if version < 0:
                return None
            (item,) = await kv.get([(namespace, version_key(version))])
        return item

    def _kv(self, user_id: str) -> AsyncKeyValues:
        validate_path_segment(text_of(user_id, "user_id"), "user_id")
        return self._users.of(user_id).kv(NAME)


async def _versions(
    kv: AsyncKeyValues, namespace: Sequence[str], *, newest: int | None = None
) -> list[int]:
    """The numbers of a file's versions in order, or of the newest ones."""
    keys = await kv.keys(namespace=namespace, order="key", reverse=True, limit=newest)
    return [int(key) for _, key in reversed(keys)]
