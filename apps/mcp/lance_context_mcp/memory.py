"""What a server serves: one part of one store, fixed before any client speaks."""

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module

from lance_context_core import AsyncContextStore, AsyncKnowledge, InvalidRequestError
from lance_context_core.models import LanguageModel

RULES = "rules"
"""The name of the extractor that finds facts without a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A store as its tools see it.

    Whose it is stands in `store`, which may be a scope, a branch or a moment of another one: no
    argument of a tool leads out of it.
    """

    store: AsyncContextStore
    is_read_only: bool = False
    """Then no tool is offered that writes."""
    has_meaning: bool = False
    """Whether the store has an embedder, so that texts are found by what they mean."""
    has_branches: bool = True
    """Whether branches may be made and merged, which takes along what is of everybody."""
    knowledge: AsyncKnowledge | None = None
    """Extracts facts from the conversations that are appended; None: no facts are made."""

    async def at(
        self, *, branch: str | None = None, as_of: str | int | None = None
    ) -> AsyncContextStore:
        """The store on a branch, as it was at a version, a tag or a moment; else as it is now.

        Raises NotFoundError where there is none, and InvalidRequestError for both at once, and for
        a branch where these are not offered.
        """
        store = self.store
        if branch is not None:
            if as_of is not None:
                raise InvalidRequestError(
                    f"branch={branch!r} and as_of={as_of!r}: give one of the two"
                )
            if not self.has_branches:
                raise InvalidRequestError(
                    f"branch={branch!r}: this server was started without branches"
                )
            store = await store.branch(branch)
        return store if as_of is None else await store.checkout(moment_or_name(as_of))


def extracting(store: AsyncContextStore, model: str) -> AsyncKnowledge:
    """The knowledge of a store with a model by its name: "rules", or PACKAGE.MODULE:NAME.

    The object of that name is a `LanguageModel`. Raises InvalidRequestError for any other name.
    """
    if model == RULES:
        return store.knowledge
    module, _, name = model.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidRequestError(
            f"model={model!r} cannot be imported ({error}): pass {RULES!r} or PACKAGE.MODULE:NAME"
        ) from error
    if isinstance(found, type) or not isinstance(found, LanguageModel):
        raise InvalidRequestError(
            f"model={model!r} is not a language model: name an object with `name` and `complete`"
        )
    return store.knowledge.using(model=found)


def moment(text: str, name: str) -> datetime:
    """The moment that a text names in ISO 8601, of UTC where it says no zone.

    Raises InvalidRequestError if it names none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            f"{name}={text[:80]!r} is not a moment: write it as 2026-05-04T09:30:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def moment_or_name(text: str | int) -> int | str | datetime:
    """A version's number, a moment in ISO 8601, or else the name of a tag."""
    if isinstance(text, int):
        return text
    if text.isdecimal():
        return int(text)
    try:
        return moment(text, "as_of")
    except InvalidRequestError:
        return text
