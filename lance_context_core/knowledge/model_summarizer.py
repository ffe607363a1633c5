"""Session summaries by a model; if it fails, sentences of the session."""

from collections.abc import Sequence

from lance_context_core._util.checks import check_count
from lance_context_core._util.frozen import frozen
from lance_context_core.knowledge import prompts
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.extracting import TIMEOUT, asked
from lance_context_core.knowledge.types import SpokenTurn, Summary
from lance_context_core.models.asking import LanguageModel, check_asking

_SPEAKERS = ("user", "assistant")
_CHARACTERS_A_WORD = 12


@frozen
class ModelSummariser:
    """Summarises sessions with a language model: one call per job, over new turns.

    The model receives the last summary and the new turns, and updates the summary.

    - `words`: maximum number requested; an answer twice as long is rejected.
    - `most_characters`: length of the end of the new turns that the model receives.
    """

    model: LanguageModel
    instructions: str = ""
    words: int = 80
    most_characters: int = 24_000
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        check_asking(self.model, self.instructions, self.timeout)
        check_count(self.words, "words")
        check_count(self.most_characters, "most_characters")

    @property
    def name(self) -> str:
        """The prompt and the model."""
        return f"{prompts.SUMMARISE_NAME}+{self.model.name}"

    async def summarise(self, turns: Sequence[SpokenTurn], before: str | None) -> Summary:
        """Return the model's summary, or the reason why it is rejected."""
        shown = self._shown(turns)
        if not shown:
            return Summary()
        request = prompts.summarise(
            shown, before=before, words=self.words, instructions=self.instructions
        )
        answer = await asked(self.model, request, self.timeout)
        text, faults = answer.data["summary"], answer.faults
        if (fault := fault_of(text, most=2 * self.words * _CHARACTERS_A_WORD)) is not None:
            faults[fault] += 1
        return Summary(
            text=text.strip() if fault is None else None,
            faults=dict(faults),
            usage=dict(answer.usage),
        )

    def _shown(self, turns: Sequence[SpokenTurn]) -> list[SpokenTurn]:
        """The last turns that fit; always the last one."""
        shown: list[SpokenTurn] = []
        n_characters = 0
        for one in reversed([one for one in turns if one.role in _SPEAKERS]):
            n_characters += len(one.text)
            if shown and n_characters > self.most_characters:
                break
            shown.append(one)
        return shown[::-1]
