"""The bytes of something that names them: there before it is seen, and gone when nothing else does."""

import mimetypes
from typing import Protocol

from lance_context_core._util.frozen import frozen
from lance_context_core.blobs.scoped import ScopedBlobs
from lance_context_core.blobs.spooling import Spooled
from lance_context_core.codecs import blobs as blobrows


class Bytes(Protocol):
    """A file."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def spooled(self) -> Spooled:
        """What is in it."""


class Naming(Protocol):
    """What is about to be written, and names its bytes."""

    @property
    def payload_uri(self) -> str | None:
        """The blob that they are; None if they are not kept."""


@frozen
class Keeping:
    """The bytes of one thing, around the commit that writes it."""

    blobs: ScopedBlobs
    given: Bytes | None
    """None where they are there already."""
    named_by: Naming
    content_type: str | None = None
    """By the name of the file, where it is absent."""

    async def before(self) -> None:
        """Put them, so that whoever finds the thing finds them."""
        if self.given is None or self.named_by.payload_uri is None:
            return
        content_type = self.content_type or mimetypes.guess_type(self.given.name)[0]
        await self.blobs.keep(self.given.spooled, content_type or "application/octet-stream")

    async def after(self, *, instead_of: str | None = None) -> None:
        """Hold them against who removes them at this moment, and let go of what was named before."""
        uri = self.named_by.payload_uri
        if self.given is not None and uri is not None:
            while not await self.blobs.hold(blobrows.checked(uri)):
                await self.before()
        if instead_of != uri:
            await let_go(self.blobs, instead_of)


async def let_go(blobs: ScopedBlobs, uri: str | None) -> None:
    """Remove what that names, unless something else names it, or a caller put it."""
    if uri is not None:
        await blobs.release(blobrows.checked(uri))
