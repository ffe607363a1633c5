"""What a check of the store finds."""

from lance_context_core._util.frozen import frozen_by_name


@frozen_by_name
class Checked:
    """What was looked at, and what was found to be wrong."""

    problems: "tuple[Wrong, ...]" = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@frozen_by_name
class Wrong:
    """Something that is not as it should be."""

    kind: str
    where: str
    what: str
    """What is wrong with it."""
