"""Scripts that put no spaces between words: their texts as overlapping pieces, which are words of the index.

A dictionary would cut a question otherwise than the text that answers it, and only the engine has
one; pieces are the same everywhere.
"""

import re


def with_pieces(text: str) -> str:
    """`text` with the pieces of each run instead of it.

    Of Chinese and Japanese each ideograph and all pairs of characters; of Thai, Lao, Burmese and
    Khmer all two and three letters that follow each other.
    """
    return _RUN.sub(lambda run: f" {' '.join(_pieces(run[0]))} ", text)


def with_asked_pieces(text: str) -> str:
    """`text`, a question, with the pieces of what it asks for beside each run.

    The run itself finds what was written when the engine still cut it. Words that only ask are left
    out of the pieces, unless the question has no others.
    """
    plain = _ASKING.sub(" ", text)
    asked = plain if re.search(r"\w", plain) else text
    pieces = [piece for run in _RUN.findall(asked) for piece in _asked_pieces(run)]
    return " ".join([text, *pieces])


def without_runs(text: str) -> str:
    """The text without what is in such a script."""
    return _RUN.sub(" ", text)


def has_runs(text: str) -> bool:
    """Whether some of it is in such a script."""
    return _RUN.search(text) is not None


_IDEOGRAPH = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = re.compile(f"[{_IDEOGRAPH}{_KANA}]+|[{_SOUTHEAST}]+")
_IS_IDEOGRAPH = re.compile(f"[{_IDEOGRAPH}]")
_IS_SOUTHEAST = re.compile(f"[{_SOUTHEAST}]")
_ASKING = re.compile(
    "什么时候|什么|甚麼|什麼|哪[里儿些个裡兒個]?|谁|誰|多少|几[个]?|幾[個]?|怎么样|怎么|怎样|怎麼樣?|为什么|為什麼|[吗嗎呢吧了的]"
    "|(?:でし|まし)たか|(?:です|ます)か|何|どこ|どの|どんな|どう|いつ|いくつ|いくら|なぜ"
    "|อะไร|ที่ไหน|ใคร|กี่|เท่าไร|อย่างไร|ทำไม|เมื่อไร|เมื่อไหร่|หรือยัง|หรือเปล่า|ใช่ไหม|ไหม|ไหน|ใด|หรือ"
)


def _pieces(run: str) -> list[str]:
    """Of a text: those of two letters, too, for questions that have no longer word."""
    if _IS_SOUTHEAST.match(run):
        return [_spelled(run)] if len(run) < 2 else [*_grams(run, 2), *_grams(run, 3)]
    return _ideographs_and_pairs(run)


def _asked_pieces(run: str) -> list[str]:
    if _IS_SOUTHEAST.match(run):
        return _grams(run, 3) if len(run) > 2 else [_spelled(run)]
    return _ideographs_and_pairs(run)


def _ideographs_and_pairs(run: str) -> list[str]:
    alone = [_spelled(one) for one in run if _IS_IDEOGRAPH.match(one)]
    return [*alone, *_grams(run, 2)] or [_spelled(run)]


def _grams(run: str, length: int) -> list[str]:
    return [_spelled(run[at : at + length]) for at in range(len(run) - length + 1)]


def _spelled(piece: str) -> str:
    """A piece in letters that no tokenizer cuts and no stemmer strips: there are no vowels."""
    return "x" + "".join(f"{ord(one):04x}" for one in piece).translate(_NO_VOWELS)


_NO_VOWELS = str.maketrans("ae", "gh")
