"""The named rules of `review`.

The page docs/knowledge.md lists them word for word, which a test checks.
"""

import re
from typing import Literal

from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.knowledge.evidence_text import is_order

FindingKind = Literal["duplicate", "loop", "unproven", "contradiction", "stale", "junk"]
"""The kind of problem of a fact or memory."""


@frozen_by_name
class ReviewRule:
    """A rule of the review."""

    name: str
    kind: FindingKind
    finds: str
    """The problem that it finds, in one sentence."""
    pattern: str | None = None
    """Its regular expression, which ignores case; None if it matches no text."""


REVIEW_RULES: tuple[ReviewRule, ...] = (
    ReviewRule(
        name="same_words",
        kind="duplicate",
        finds="The same words, whatever their case, spaces and marks.",
    ),
    ReviewRule(
        name="nearly_same_words",
        kind="duplicate",
        finds="The same words once small words and endings are left out.",
    ),
    ReviewRule(
        name="recalled_and_said_again",
        kind="loop",
        finds="Made of turns alone that repeat what was recalled: their metadata says so.",
    ),
    ReviewRule(
        name="agent_repeats_memory",
        kind="loop",
        finds="Said by an assistant or a tool, in the words of what was known before.",
    ),
    ReviewRule(
        name="injected_block",
        kind="loop",
        finds="A piece of a window, with its marks: what was injected into a prompt was kept.",
        pattern=r"</?(?:recall|facts|profile|pinned|documents|memories|memory)>|^\s*\[m\d+\]",
    ),
    ReviewRule(
        name="no_evidence",
        kind="unproven",
        finds="A fact that names no turn.",
    ),
    ReviewRule(
        name="turn_gone",
        kind="unproven",
        finds="A fact of which every turn is deleted, hidden or expired.",
    ),
    ReviewRule(
        name="turn_says_otherwise",
        kind="unproven",
        finds="A fact of which no turn says any more what it said.",
    ),
    ReviewRule(
        name="two_values",
        kind="contradiction",
        finds="Two current values of one slot of one person.",
    ),
    ReviewRule(
        name="says_the_opposite",
        kind="contradiction",
        finds="The same words, affirmed once and denied once.",
    ),
    ReviewRule(
        name="validity_over",
        kind="stale",
        finds="Shown, though the end that it states itself has passed.",
    ),
    ReviewRule(
        name="day_has_passed",
        kind="stale",
        finds="Names a day by the day on which it was said, a week ago or more.",
        pattern=r"\b(?:today|tonight|tomorrow|yesterday|this (?:morning|afternoon|evening|week|weekend)"
        r"|next (?:week|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday))\b",
    ),
    ReviewRule(
        name="planned_date_has_passed",
        kind="stale",
        finds="Plans something for a date, written as 2026-11-29, that has passed.",
        pattern=r"\b(?:will|going to|plans? to|planning|scheduled|due|deadline|flying|meeting|appointment)\b",
    ),
    ReviewRule(
        name="not_said_for_long",
        kind="stale",
        finds="Not said since `stale_after`, which is a year unless the call says otherwise.",
    ),
    ReviewRule(
        name="credential",
        kind="junk",
        finds="A password, a key, a token or the number of a card; its report shows it masked.",
        pattern=r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}"
        r"|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)|-----BEGIN [A-Z ]*PRIVATE KEY-----"
        r"|\b(?:password|passwd|passphrase|api[ _-]?key|secret(?:[ _-]key)?|access[ _-]?token|pin code|pin)"
        r"\b(?:\s+(?:is|was)\s*:?\s*|\s*[:=]\s*)(?=\S*[\d!@#$%^&*_-])\S{4,}|\b(?:\d{4}[ -]?){3}\d{4}\b",
    ),
    ReviewRule(
        name="system_prompt",
        kind="junk",
        finds="An instruction to a model, or what a model says of itself.",
        pattern=r"\byou are an? (?:\w+ ){0,3}(?:assistant|agent|model|chatbot|ai)\b|\bas an ai\b|\bsystem prompt\b"
        r"|\b(?:language model|knowledge cutoff)\b|\bthe (?:assistant|agent|ai) (?:is|was|should|must|will|can)\b"
        r"|\b(?:you|assistant) (?:must|should) (?:always|never)\b",
    ),
    ReviewRule(
        name="tool_noise",
        kind="junk",
        finds="What a program wrote: JSON, HTML, a stack trace, a log, a state of an agent.",
        pattern=r"^\s*[\[{].*[\]}]\s*$|```|</?(?:html|body|div|script)\b|\btraceback \(most recent|^\s*at \S+ \(.*:\d+\)"
        r"|\bHTTP(?:/\d(?:\.\d)?)? [1-5]\d\d\b|\bexit (?:code|status) \d+|\b(?:tool|function)_calls?\b"
        r"|^\s*(?:\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\s+)?\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\]?[ :]"
        r"|\bheartbeat\b|\bcron(?: ?job)? (?:ran|fired|triggered)|\bsession (?:started|ended|resumed)\b",
    ),
    ReviewRule(
        name="greeting",
        kind="junk",
        finds="A greeting, thanks or a nod, and nothing else; or the report of one.",
        pattern=r"^\W*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|night)|thanks|thank you|thx|bye|goodbye"
        r"|see you|ok|okay|yes|no|sure|great|cool|nice|perfect|got it|sounds good|you're welcome|how are you)"
        r"(?: (?:there|all|everyone|again|so much|very much|a lot|later|soon|today|for (?:the|your) help))*\W*)+$"
        r"|^\W*(?:the )?user (?:greets|greeted|says hello|said hello|thanks|thanked|says thanks)\b",
    ),
    ReviewRule(
        name="question",
        kind="junk",
        finds="A question, or the report of one.",
        pattern=r"\?\s*$|^\W*(?:the )?user (?:asks|asked|wants to know|wonders|is asking)\b",
    ),
    ReviewRule(
        name="transient",
        kind="junk",
        finds="A state that is over within hours, such as where a person is or how they feel now.",
        pattern=r"\b(?:am|is|are|'m|'s|'re)(?: \w+)? (?:at|in) (?:the|an?) (?:airport|station|bus|train|taxi|car|gym|office"
        r"|shop|store|queue|line|meeting|call|hurry|traffic jam|lobby|restaurant|cafe|café|supermarket)\b"
        r"|\b(?:right now|at the moment|just now|running late|on (?:my|his|her|their|the) way)\b"
        r"|\b(?:am|is|are|'m|'s|'re|feels?|feeling)(?: \w+)? (?:tired|hungry|thirsty|sleepy|busy|bored|asleep|awake|sick)\b"
        r"|\b(?:just (?:woke|got) up|waiting for (?:the|an?|my))\b",
    ),
    ReviewRule(
        name="hypothetical",
        kind="junk",
        finds="Imagined, and not so.",
        pattern=r"\b(?:pretend|imagine|hypothetically|let's say|suppose (?:that|i|we)|role-?play|if i (?:were|was) (?:an?|the))\b",
    ),
    ReviewRule(
        name="fragment",
        kind="junk",
        finds="A single word, or a text that ends in the middle of a sentence; a slot's value is none.",
        pattern=r"^\W*\w*\W*$|(?:[,:;(-]|\b(?:and|or|but|because|the|an?|to|of|with|for|is|are|that))\s*$",
    ),
)
"""All rules. For junk, the first rule that matches counts."""

_PATTERNS = {
    one.name: re.compile(one.pattern, re.IGNORECASE | re.MULTILINE)
    for one in REVIEW_RULES
    if one.pattern is not None
}
_JUNK = tuple(one.name for one in REVIEW_RULES if one.kind == "junk")
RULES = {one.name: one for one in REVIEW_RULES}


def matches(rule: str, text: str) -> bool:
    """Whether the pattern of a rule matches a text."""
    return _PATTERNS[rule].search(text) is not None


def junk_in(text: str, *, is_value: bool) -> str | None:
    """Return the first junk rule that matches a text; None if none does."""
    for name in _JUNK:
        if name == "fragment" and is_value:
            continue
        if matches(name, text) or (name == "system_prompt" and is_order(text)):
            return name
    return None


def masked(text: str) -> str:
    """Mask the secrets in a text after their first characters."""
    return _PATTERNS["credential"].sub(lambda one: f"{one[0][:4]}…", text)


# Comparison of texts.

_SMALL = frozenset(
    "i me my mine we us our the a an user user's is am are was were be been being have has had do does did "
    "to in on at of for and that this it its now currently still also really very just already longer".split()
)
_DENIALS = frozenset(
    "not no never don't doesn't didn't isn't aren't wasn't weren't won't can't cannot couldn't "
    "haven't hasn't nor".split()
)
_LIKES = frozenset("like likes liked love loves loved enjoy enjoys enjoyed adore adores".split())
_DISLIKES = frozenset("hate hates hated dislike dislikes disliked detest detests".split())
_WORD = re.compile(r"\w+(?:'\w+)*")
_STAND = re.compile(r"\b(?:can't|cannot) stand\b")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s)$")
_LEAST = 2
"""Minimum number of words left of a text to compare it."""


@frozen
class Gist:
    """The words of a text that count in a comparison."""

    words: frozenset[str]
    is_denied: bool

    @property
    def is_enough(self) -> bool:
        """Whether it has enough words to compare."""
        return len(self.words) >= _LEAST


def gist(text: str) -> Gist:
    """Return the words that count; likes and dislikes are one word."""
    plain = text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words: set[str] = set()
    is_denied = False
    for word in _WORD.findall(_STAND.sub("hate", plain)):
        if word in _DENIALS:
            is_denied = not is_denied
        elif word in _LIKES or word in _DISLIKES:
            words.add("like")
            is_denied = is_denied != (word in _DISLIKES)
        elif word not in _SMALL:
            words.add(_ENDING.sub("", word))
    return Gist(frozenset(words), is_denied)
