"""What a check of the store finds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was looked at, and what was found to be wrong."""

    problems: "tuple[Wrong, ...]" = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Something that is not as it should be."""

    kind: str
    where: str
    what: str
    """What is wrong with it."""
