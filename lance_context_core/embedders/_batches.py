"""Texts in batches: as many at once as a model or a service takes, in number and in length."""

from collections.abc import Iterator, Sequence


def batches(texts: Sequence[str], *, max_texts: int, max_chars: int) -> Iterator[list[str]]:
    """`texts` in order; one that is longer than `max_chars` is a batch of its own."""
    batch: list[str] = []
    n_chars = 0
    for text in texts:
        if batch and (len(batch) == max_texts or n_chars + len(text) > max_chars):
            yield batch
            batch, n_chars = [], 0
        batch.append(text)
        n_chars += len(text)
    if batch:
        yield batch


def well_formed(text: str) -> str:
    """`text` with unpaired surrogates replaced: tokenizers refuse them, half an emoji is common."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
