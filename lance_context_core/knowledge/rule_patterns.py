"""The regular expressions of the rules, and the facts that they match in a turn.

They are compiled at the import of this module, which the first extraction triggers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lance_context_core.knowledge.chunks import Span, sentences
from lance_context_core.knowledge.evidence_text import is_order
from lance_context_core.knowledge.types import FactCandidate, SpokenTurn

Rule = tuple[str, float, re.Pattern[str]]
"""A slot, its importance, and the pattern of its value."""

# A rule matches a whole sentence: it begins where the sentence does, and the value is followed by
# few forms. Questions, quotes, imagination, hedges, jest and statements about others are no
# statements, and are left out: a missed fact costs less than a wrong one.

_OPENERS = (
    r"(?:(?:hi|hello|hey|well|so|oh|ok|okay|yes|yeah|yep|no|nope|actually|also|and|btw|by the way|fyi|anyway"
    r"|just so you know|for the record|update|quick update|news|good news|big news|turns out|as of today"
    r"|today|yesterday|recently|now|currently|these days|nowadays|unfortunately|sadly|luckily|sorry"
    r"|correction|in fact|besides|then|there|again|all|everyone|folks|thanks|thank you|great|nice|right"
    r"|since (?:last )?\w+|last \w+|this \w+|in (?:19|20)\d\d|in [A-Z]\w+)(?:[,:;!-]+ ?| (?=I\b|we\b|my\b)|\s*[.]{3} ?))*"
)
_NOW = r"(?: now| currently| still| actually| just| recently| finally| already| mostly| usually| officially| also)*"
_I = r"(?:I|we)"
_I_AM = r"(?:I'm|I am|we're|we are|Im)"
_PLACE = (
    r"(?!(?:slack|teams|kubernetes|aws|azure|gcp|docker|postgres\w*|mysql|mongo\w*|github|gitlab|git|python|rust|go|java|kotlin"
    r"|typescript|javascript|react|vue|angular|linux|ubuntu|windows|mac\w*|ios|android|notion|jira|linear|trello|zoom|google|gmail"
    r"|outlook|chrome|firefox|netflix|spotify|plan|phase|step|chapter|level|part|version|monday|tuesday|wednesday|thursday|friday"
    r"|saturday|sunday|hope|fear|denial|limbo|hell|heaven|utopia|narnia|neverland|wonderland|fantasia|la[- ]la land"
    r"|cloud[- ]cuckoo|dreamland|cloud|excel|word|figma|vs|vim|emacs|terraform|jenkins|redis|kafka|snowflake|scala|swift|node\w*)\b)"
    r"(?P<value>(?-i:(?:the )?[A-ZÀ-ÖØ-Þ][\w'-]*(?:(?: of | the | de | la | | do | am |-)[A-ZÀ-ÖØ-Þ][\w'-]*){0,3}))"
)
"""A name, except for other objects of "move to"."""
_NAME = r"(?P<value>(?-i:[A-ZÀ-ÖØ-Þ][\w'&-]*(?: (?:& )?[A-ZÀ-ÖØ-Þ][\w'&-]*){0,2}))"
_END = (
    r"(?=$|[.!;,)]|:\)| and(?! (?-i:[A-HJ-Z]|I[a-z]))\b| (?:now|since|for|with|in|on|as|last|this|these|again|at|right|near|because|so|where|which"
    r"|together|today|yesterday|permanently|full[- ]time|part[- ]time|remotely|a \w+ ago|\w+ (?:days|weeks|months|years) ago"
    r"|over|who|from|too|anymore|any ?more|\()\b)"
)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr"
    r"|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?:\.(?= \d))?"
)
_DATE = rf"(?P<value>(?:{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?|(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH})(?:,? \d{{4}})?)"
_TRADES = (
    r"(?:nurse|teacher|doctor|engineer|developer|programmer|designer|lawyer|chef|cook|baker|carpenter|plumber"
    r"|electrician|farmer|writer|author|journalist|editor|translator|architect|accountant|dentist|vet|veterinarian"
    r"|pharmacist|scientist|researcher|professor|lecturer|librarian|musician|painter|photographer|actor|pilot"
    r"|driver|mechanic|firefighter|paramedic|soldier|policeman|policewoman|student|consultant|manager|analyst"
    r"|barista|waiter|waitress|midwife|therapist|psychologist|physiotherapist|economist|biologist|chemist"
    r"|physicist|geologist|historian|welder|gardener|florist|hairdresser|tailor|freelancer|data scientist)"
)
_TRADE = rf"(?P<value>(?:[a-z]+(?:-[a-z]+)? ){{0,2}}{_TRADES})"
_PEOPLE = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|fiancée?|son|daughter|sister|brother|mother|mom|mum|father|dad"
    r"|boss|manager|dog|cat|horse|parrot|rabbit|hamster)"
)


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"^{_OPENERS}{pattern}", re.IGNORECASE)


_SLOTS: Sequence[tuple[str, float, re.Pattern[str]]] = (
    ("residence", 0.9, _rule(rf"{_I}(?:'ve| have)?{_NOW} (?:moved|relocated)(?: back)?(?: from [\w' -]+?)?(?: back)? to {_PLACE}{_END}")),
    ("residence", 0.9, _rule(rf"{_I}{_NOW} live in {_PLACE}{_END}")),
    ("residence", 0.9, _rule(rf"{_I}(?:'ve| have) been{_NOW} (?:living|based) in {_PLACE}{_END}")),
    ("residence", 0.9, _rule(rf"{_I_AM}{_NOW} (?:living|based) in {_PLACE}{_END}")),
    ("name", 0.9, _rule(rf"my (?:full |real )?name(?:'s| is) {_NAME}{_END}")),
    ("employer", 0.8, _rule(rf"I{_NOW} work (?:at|for) {_NAME}{_END}")),
    ("employer", 0.8, _rule(rf"{_I_AM}{_NOW} (?:working|employed) (?:at|for|by) {_NAME}{_END}")),
    ("employer", 0.8, _rule(rf"I(?:'ve| have)?{_NOW} (?:started (?:working |a (?:new )?job |work )?|got a (?:new )?job |got hired |took a (?:new )?job )(?:at|by|with) {_NAME}{_END}")),
    ("employer", 0.8, _rule(rf"I(?:'ve| have)?{_NOW} joined (?!slack\b|discord\b|zoom\b|teams\b|facebook\b|linkedin\b|twitter\b|reddit\b|github\b|mastodon\b|tinder\b|instagram\b|patreon\b|x\b){_NAME}(?= as an? |[.!]?$| (?:last|this) \w+[.!]?$)")),
    ("occupation", 0.8, _rule(rf"I{_NOW} work as an? (?P<value>[a-z][a-z -]{{1,40}}?){_END}")),
    ("occupation", 0.8, _rule(rf"{_I_AM}{_NOW} an? {_TRADE}{_END}")),
    ("birthday", 0.8, _rule(rf"my birthday(?:'s| is)(?: on)? {_DATE}(?=$|[.!,])")),
    ("birthplace", 0.8, _rule(rf"I was born(?: and raised)? in {_PLACE}(?=$|[.!,]| (?:in|on|and)\b)")),
)  # fmt: skip
"""Slots with one value at a time; a later one replaces the earlier one."""

_NAMED_SLOTS: Sequence[tuple[float, re.Pattern[str]]] = (
    (0.7, _rule(r"my (?:new )?favou?rite (?P<slot>[a-z]+(?: [a-z]+)?)(?:'s| is)(?: now)? (?P<value>(?!not\b|no longer|when\b|that\b|to\b|how\b|what\b|the one\b|still\b|by far\b)[^\s,.;!?]+(?: (?!but\b|because\b|and\b|or\b|when\b|with\b|now\b|since\b|by\b|so\b|these days\b|nowadays\b|lately\b|at the\b|right now\b|again\b|at present\b|this\b)[^\s,.;!?]+){0,3})(?=$|[.!,]| (?:because|and|with|now|since|by|so|these|nowadays|lately|at|right|again|this)\b)")),
    (0.8, _rule(rf"my (?P<slot>{_PEOPLE})(?:'s| is) (?:called|named) {_NAME}{_END}")),
    (0.8, _rule(rf"my (?P<slot>{_PEOPLE})'s name is {_NAME}{_END}")),
)  # fmt: skip

_ENDS: Sequence[tuple[str, re.Pattern[str]]] = (
    ("residence", _rule(rf"{_I}(?: no longer| don't| do not) live in {_PLACE}{_END}")),
    ("residence", _rule(rf"{_I_AM} (?:no longer|not) (?:living|based) in {_PLACE}{_END}")),
    ("residence", _rule(rf"{_I}(?:'ve| have)?{_NOW} (?:moved (?:away from|out of)|left) {_PLACE}(?: for good)(?=$|[.!,])")),
    ("residence", _rule(rf"{_I}(?:'ve| have)?{_NOW} moved (?:away from|out of) {_PLACE}{_END}")),
    ("employer", _rule(rf"I(?: no longer| don't| do not) work (?:at|for) {_NAME}{_END}")),
    ("employer", _rule(rf"{_I_AM} (?:no longer|not) (?:working|employed) (?:at|for|by) {_NAME}{_END}")),
    ("employer", _rule(rf"I(?:'ve| have)?{_NOW} (?:quit|left|resigned from) my (?:old )?job(?: at {_NAME})?(?=$|[.!,]| (?:last|this|today|yesterday|and|because|in|on|at)\b)")),
    ("employer", _rule(rf"I(?:'ve| have)?{_NOW} (?:quit|resigned|retired)(?: from {_NAME})?(?=$|[.!,]| (?:last|this|today|yesterday)\b)")),
    ("employer", _rule(rf"I(?: was| got|'ve been| have been){_NOW} (?:fired|laid off|let go)(?: (?:from|by) {_NAME})?(?=$|[.!,]| (?:last|this|today|yesterday)\b)")),
    ("employer", _rule(rf"{_I_AM}{_NOW} (?:unemployed|retired|between jobs)(?=$|[.!,]| (?:now|since)\b)")),
    ("occupation", _rule(rf"I(?: no longer| don't| do not) work as an? (?P<value>[a-z][a-z -]{{1,40}}?){_END}")),
    ("occupation", _rule(rf"{_I_AM} (?:no longer|not) an? {_TRADE}{_END}")),
)  # fmt: skip
"""Patterns that end a value."""
_ENDS_A_FAVOURITE = _rule(
    r"my favou?rite (?P<slot>[a-z]+(?: [a-z]+)?)(?: is no longer| is not| isn't) (?P<value>[^,.;!?]{1,40}?)(?: any ?more)?(?=$|[.!,])"
)

_NO_OBJECT = (
    r"(?! (?:it|that|this|these|those|you|your|how|when|what|where|to (?:know|see|hear|think|add|ask|point|thank|understand|say|be|do|have|use)"
    r"|the (?:way|idea|sound|look|first|second|last|new|other|previous|answer|response|code|plan|suggestion|design|tone|version|one|ones|option|result|draft))\b)"
)
_KINDS: Sequence[tuple[str, float, re.Pattern[str]]] = (
    ("need", 0.9, _rule(rf"(?:{_I_AM}|I've been|I have been){_NOW}(?: severely| very| really)? (?:allergic to|a vegan|vegan|a vegetarian|vegetarian|diabetic|pregnant|lactose[- ]intolerant|gluten[- ]intolerant|celiac|coeliac|color ?blind|colour ?blind|deaf|epileptic|asthmatic)\b")),
    ("need", 0.9, _rule(r"I have (?:an? )?(?:[a-z]+ (?:\d )?)?(?:allerg(?:y|ies)|diabetes|asthma|epilepsy|celiac|coeliac|adhd|migraines|arthritis|insomnia|dyslexia)\b")),
    ("need", 0.9, _rule(r"I (?:can't|cannot|don't|do not) (?:eat|drink|tolerate) [a-z]+")),
    ("preference", 0.7, _rule(rf"I(?: really| absolutely| do| especially| always| generally| usually| still)* (?:like|love|enjoy|prefer|hate|dislike|adore|can't stand|don't like|do not like|don't enjoy){_NO_OBJECT} \w+")),
    ("preference", 0.7, _rule(r"I(?:'m| am)(?: really| very)* (?:into|(?:a (?:big |huge )?)?fan of|fond of|afraid of|scared of|passionate about) (?!it\b|that\b|this\b|you\b)\w+")),
    ("decision", 0.7, _rule(r"(?:I|we)(?:'ve| have)?(?: just| finally)? decided (?:to|not to|on|against) \w+")),
    ("decision", 0.7, _rule(r"I(?:'ve| have)?(?: just| finally)? (?:quit|stopped|given up|gave up|started) (?:smoking|drinking|eating \w+|meat|sugar|coffee|alcohol|running|swimming|learning \w+|taking \w+)\b")),
    ("plan", 0.6, _rule(rf"(?:{_I_AM}{_NOW} planning (?:to|on|an?|our|my)|{_I} plan (?:to|on)) (?!do\b|use\b|ask\b|try\b|write\b|add\b)\w+")),
    ("plan", 0.6, _rule(rf"{_I_AM}(?: going to be)? (?:flying|travell?ing|moving|getting married|visiting|training for|saving (?:up )?for|starting|expecting|running|going to (?:visit|move|marry|run|start|study|buy|travel|have|learn|be)) (?!over|through|again|with|this|the|into|to (?:think|believe|feel|wonder)|late|low|out)\w+.*\w")),
    ("plan", 0.6, _rule(rf"{_I} want to (?:learn|become|visit|travel|run|buy|move|study|retire|climb|open) \w+")),
    ("possession", 0.6, _rule(rf"{_I}(?:'ve got| have got| have| own)(?: an?| another| two| three| four| five| six| some| \d+)(?! (?:few|lot|bit|bug|question|questions|problem|problems|issue|issues|idea|ideas|feeling|meeting|meetings|headache|doubt|doubts|favor|favour|request|file|files|list|function|functions|script|table|class|string|error|errors|hunch|theory|hypothesis|plan|call|point|minute|minutes|moment|second|test|exam|deadline|suggestion|interview|presentation|appointment|cold|time|more|dream|really|very|weird|strange|quick|small question|small problem|good feeling|bad feeling|hard time)\b) \w+")),
    ("identity", 0.6, _rule(rf"{_I_AM}{_NOW} an? (?!bit\b|little\b|lot\b|few\b|mess\b|idiot\b|fool\b|fan\b|genius\b|bot\b|wreck\b|tad\b|robot\b|big fan\b|huge fan\b|disaster\b|zombie\b|sucker\b|step\b|loss\b|professional procrastinator)\w+")),
    ("attribute", 0.6, _rule(rf"{_I_AM}{_NOW} (?:from [A-Z]|married\b|single\b|divorced\b|engaged\b|left-handed\b|\d+ years old\b|\d{{2}}(?=[.!,]|$| and\b)|retired\b|unemployed\b|learning [A-Z]\w+|studying \w+)")),
    ("attribute", 0.6, _rule(rf"{_I}{_NOW} (?:speak [A-Z]\w+|play (?:the )?\w+|study \w+|drive an? \w+|live (?:in(?! fear| hope| hell| denial| peace| the (?:past|moment|future))|with|near|alone)\b|work (?:in|from|with|nights|remotely|part-time|full-time|at|for|as)\b|use (?:a |an )?[A-Z]\w+|run \w+ (?:times|marathons|every)|(?:swim|cycle|jog|meditate|hike|bike|climb|bake|knit|paint|garden) (?:every|on|to|in|twice|daily)\b|get up at|wake up at|go to (?:the gym|bed|church|school)|collect \w+|keep (?:bees|chickens|goats)|grew up\b|was born\b|take \w+ for\b|drink \w+ every)")),
    ("attribute", 0.6, _rule(rf"{_I}(?:'ve| have) (?:been \w+ing .*\b(?:for|since)\b|lived\b|worked\b)")),
    ("attribute", 0.6, _rule(rf"my (?:\w+ )?(?:{_PEOPLE}|parents?|kids?|children|family|grandmother|grandfather|grandma|grandpa|uncle|aunt|cousin|niece|nephew|roommate|flatmate|neighbou?r|best friend|twins?|grandson|granddaughter)(?:(?:'s)? (?:name|birthday|wedding) is| is| are| lives?| works?| has| have| loves?| likes?| hates?| plays?| speaks?| studies| turned| turns| was born| got| died| passed away| just (?:got|turned|had|started)) (?!so\b|really (?:annoying|mad)|driving me|always|asking|right|calling|here\b|not\b|being|coming|going|an? (?:idiot|pain|saint))\w+")),
    ("attribute", 0.6, _rule(r"my (?:shoe size|ring size|height|weight|blood type|star sign|native language|mother tongue|first language|anniversary|wedding anniversary|phone|laptop|car|bike|email|time ?zone|budget|address|hobby|hobbies|diet|birthday|name|hometown|surname|job|degree|pronouns)(?:'s| is| are) (?!not\b|on\b|in\b|broken\b|dead\b|slow\b|coming\b|next\b|boring\b|killing\b|out\b|in the shop\b|in danger\b|mud\b)(?:a |an |the )?[\w'-]+")),
    ("event", 0.4, _rule(rf"{_I}(?:'ve| have)?(?: just| recently| finally| both| only)* (?:got (?:married|engaged|divorced|promoted|an? \w+|my \w+|into)|graduated|adopted|bought|sold|met|lost my|won|passed my|ran (?:a|an|my)|visited|travell?ed to|went to [A-Z]|had (?:a baby|surgery|twins)|broke my|broke up|celebrated|learned to|finished my|turned \d+|gave birth|quit|left|joined|started|moved (?!to the|on\b)|adopted|saw|attended|hiked|climbed|was in (?-i:[A-Z])\w+|were in (?-i:[A-Z])\w+)\b")),
)  # fmt: skip
"""Patterns of the kinds, with their importance; the first match counts."""

_IS_NO_STATEMENT = re.compile(
    r"\b(?:if|would|could|should|might|(?-i:may)|maybe|perhaps|probably|possibly|wish|hope|hoping|guess|suppose"
    r"|supposed|imagine|imagined|pretend|almost|nearly|unless|whether|dream(?:s|ed|t)?|dreaming|(?<!no )joke|joking|kidding|jk|lol|lmao|rofl|haha+"
    r"|hypothetically|in theory|theoretically|supposedly|apparently|allegedly|yeah right|as if|not sure|unsure"
    r"|no idea|i think|i believe|i feel like|used to|for example|for instance|e\.g|say that|said|says|told|claims?"
    r"|claimed|wrote|asked|according to|considering|thinking (?:of|about)|tempted|until|temporarily|for now"
    r"|for the (?:summer|week|weekend|night|day|moment|winter|holidays)|back then|when i was|as a (?:kid|child|teenager)|once upon"
    r"|in my (?:last|previous|next) (?:life|job)|in another life|clearly|obviously|of course|wonderful, another"
    r"|or (?:something|whatever|not)|sort of|kind of|kinda|sorta|someday|some day|one day|never mind|wait|i mean"
    r"|except|in the (?:game|story|novel|movie|film|play|book|scene)|my character|at gunpoint|to death|living hell|rent[- ]free"
    r"|so (?:excited|much) to wait|again[.!]* (?:great|fantastic|wonderful)|yay me|what a surprise|just love|just adore|so love|oh great|oh joy|how lovely)\b"
    r"|(?:bone|bones) to pick|axe to grind|(?:bigger|other|another) fish to fry|frog in my throat|butterflies in|two left (?:feet|hands)"
    r"|two cents|a bee in my bonnet|chip on my shoulder|skin in the game|a screw loose|cold feet|itchy feet|eyes in the back"
    r"|running (?:on|out of|low|late|behind|around|scared|short)|on cloud nine|barking up|beating around|pulling (?:my|your) leg"
    r"|over the moon|under the weather|head over heels|in a pickle|in the same boat|in hot water|at the end of my rope"
    r"|sick and tired|dead tired|for peanuts|married to my (?:job|work)|all ears|like a (?:dog|horse|charm|chicken|headless chicken|baby|log|fish|king|queen|bird|rock)"
    r"|\N{FACE WITH TEARS OF JOY}"
    r"|/s\b|\N{FACE WITH ROLLING EYES}|\N{UPSIDE-DOWN FACE}|\?|\.\.\.?\s*not\b|, not[.!]*$|\bNOT\b|\bI'd\b|\bwe'd\b"
    r"|\bbut (?:not|actually|really|now|then|soon)\b",
    re.IGNORECASE,
)
"""Hedges, hypotheses, statements about others, and jest."""
_IS_NO_TALK = re.compile(
    r"\b(?:translat(?:e|es|ed|ing|ion)|traduc\w+|übersetz\w*|how (?:do|would) (?:you|i|one) say|proof-?read|rephrase|reword|paraphrase|rewrite|summari[sz]e"
    r"|correct (?:this|the|my) (?:sentence|text|grammar|paragraph)|grammar|role-?play|pretend|imagine|suppose|let's say"
    r"|once upon a time|hypothetical\w*|scenario|fiction\w*|lyrics|dialogue|screenplay|protagonist|narrator"
    r"|(?:write|draft|compose|make up|continue|finish|generate|create|give) (?:me |us )?(?:an?|the|this|my|some|two|three) (?:\w+ ){0,3}(?:story|poem|song|letter|email|e-mail|essay|speech"
    r"|scene|chapter|bio|cover letter|post|tweet|ad|monologue|message|paragraph|novel|joke|sample|example|sentences?|review|reply)|in the voice of|from the perspective of"
    r"|first line|opening line|example sentences?|sample text|test (?:data|sentence|input)|chapter \d+|act as|you are (?:a|an)\b|the (?:email|letter|review|text|article|comment|post) (?:says|said|reads|read|goes)|quote\b|subtitle)",
    re.IGNORECASE,
)
"""A turn about words instead of facts."""
_QUOTED = re.compile(
    r"\"[^\"]{0,2000}\"|\N{LEFT DOUBLE QUOTATION MARK}[^\N{RIGHT DOUBLE QUOTATION MARK}]{0,2000}\N{RIGHT DOUBLE QUOTATION MARK}"
    r"|«[^»]{0,2000}»|„[^\N{LEFT DOUBLE QUOTATION MARK}]{0,2000}\N{LEFT DOUBLE QUOTATION MARK}"
    r"|(?<!\w)'(?:[^'\n]|'\w){0,400}'(?!\w)|```[^`]*(?:```|$)|`[^`\n]{0,2000}`|^>[^\n]*$",
    re.MULTILINE,
)
"""Quotations of others, and programs."""
_TAKES_BACK = re.compile(
    r"(?:(?:no|nope|oh|ah|oops|sorry|actually|ok|okay|well|hm+)[,:;.! -]+)*"
    r"(?:(?P<former>(?:scratch|strike|ignore|forget|disregard|cancel) (?:that|it|this|what i (?:just )?said)|i take (?:that|it|this) back"
    r"|that(?:'s| is| was) (?:wrong|not right|not true|not correct|incorrect|a mistake|a lie))"
    r"|never ?mind(?: that)?|let me (?:correct|rephrase) (?:that|this|myself)|i (?:misspoke|was wrong|made a mistake)"
    r"|(?:that was )?my (?:mistake|bad)|correction|oops|(?:wait|hold on|hang on)(?: a (?:second|minute|moment))?(?:,? no(?: no)*)?|i mean)"
    r"(?:[,:;.!-]+\s*|\s+(?=(?:I|I'm|my|we|we're)\b)|$)",
    re.IGNORECASE,
)
"""The beginning of a sentence that takes back what the speaker has just said; `former` says so."""
_BULLET = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
_SECOND = re.compile(r"\b(?:but|although|though|however|instead)\b", re.IGNORECASE)
"""The part after it differs: no rule can decide whether it takes back the statement."""
_DENIES = re.compile(r"\b(?:not|never|no longer|don't|didn't|won't|isn't|haven't)\b")
_MOST_CHARACTERS = 400
"""Maximum length of a sentence: longer text is hardly one."""
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
"""Read as the straight one, which has the same length."""


def of_turn(turn: SpokenTurn, own: Sequence[Rule]) -> list[FactCandidate]:
    """Return the facts of a turn, in order; `own` are rules that precede the others."""
    text = turn.text.replace(_CURLY, "'")
    is_talk = not _IS_NO_TALK.search(text)
    quoted = [one.span() for one in _QUOTED.finditer(text)]
    found: list[FactCandidate] = []
    former: list[FactCandidate] = []
    """The facts of the sentence before."""
    for begun, end in sentences(text):
        bullet = _BULLET.match(text[begun:end])
        start = begun if bullet is None else begun + bullet.end()
        if back := _TAKES_BACK.match(text, start, end):
            start = back.end()
            if back["former"] or start == end:
                found = [one for one in found if one not in former]
        sentence = text[start:end]
        is_quoted = any(begin < end and start < finish for begin, finish in quoted)
        former = [] if is_quoted else [*_stated(turn, sentence, (start, end), own, is_talk=is_talk)]
        if back is not None:
            slots = {one.slot for one in former} - {None}
            found = [one for one in found if one.slot not in slots]
        found += former
    return found


def _stated(
    turn: SpokenTurn, sentence: str, span: Span, own: Sequence[Rule], *, is_talk: bool
) -> Iterator[FactCandidate]:
    """Yield the facts of a sentence that quotes nothing."""
    if len(sentence) > _MOST_CHARACTERS or sentence.endswith("?") or is_order(sentence):
        return
    if slots := {} if _DENIES.search(sentence) else _own_slots(sentence, own):
        yield from _values(turn, span, slots)
    elif is_talk:
        yield from _of_sentence(turn, sentence, span)


def _own_slots(sentence: str, own: Sequence[Rule]) -> dict[str, tuple[float, str]]:
    """Apply the caller's own rules, which are not restricted otherwise."""
    found: dict[str, tuple[float, str]] = {}
    for slot, importance, pattern in own:
        if match := pattern.search(sentence):
            found.setdefault(slot, (importance, match["value"].strip()))
    return found


def _values(
    turn: SpokenTurn, span: Span, slots: Mapping[str, tuple[float, str]]
) -> Iterator[FactCandidate]:
    for slot, (importance, value) in slots.items():
        yield _candidate(turn, span, "attribute", importance, slot=slot, value=value)


def _of_sentence(turn: SpokenTurn, sentence: str, span: Span) -> Iterator[FactCandidate]:
    if _IS_NO_STATEMENT.search(sentence):
        return
    if (ended := _ended(sentence)) is not None:
        slot, value = ended
        yield _candidate(turn, span, "attribute", 0.8, slot=slot, value=value, polarity="ends")
        return
    is_plain = not _SECOND.search(sentence) and not _DENIES.search(sentence)
    if is_plain and (slots := _slots(sentence)):
        yield from _values(turn, span, slots)
        return
    for kind, importance, pattern in _KINDS:
        if pattern.search(sentence):
            yield _candidate(turn, span, kind, importance)
            return


def _candidate(
    turn: SpokenTurn, span: Span, kind: str, importance: float, **slot: Any
) -> FactCandidate:
    return FactCandidate(
        text=turn.text[span[0] : span[1]],
        source_id=turn.id,
        start=span[0],
        end=span[1],
        kind=kind,
        importance=importance,
        **slot,
    )


def _ended(sentence: str) -> tuple[str, str | None] | None:
    """Return the slot that a sentence ends, and its value if the sentence names it."""
    for slot, pattern in _ENDS:
        if match := pattern.search(sentence):
            return slot, match.groupdict().get("value")
    if match := _ENDS_A_FAVOURITE.search(sentence):
        return f"favourite {match['slot'].casefold()}", match["value"]
    return None


def _slots(sentence: str) -> dict[str, tuple[float, str]]:
    found: dict[str, tuple[float, str]] = {}
    for slot, importance, pattern in _SLOTS:
        if match := pattern.search(sentence):
            found.setdefault(slot, (importance, match["value"].strip()))
    for importance, pattern in _NAMED_SLOTS:
        if match := pattern.search(sentence):
            slot = match["slot"].casefold()
            slot = f"favourite {slot}" if "avo" in match[0].split(slot)[0] else slot
            found.setdefault(slot, (importance, match["value"].strip()))
    return found
