"""Split texts into the words that a BM25 index counts."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from rankgrad.errors import bad_type, bad_value, mistyped

# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
Stemmer = str | Callable[[str], str] | None
PLURAL = "plural"  # name of the stemmer `singular`
_LANGUAGES = {
    "da": "DANISH",
    "de": "GERMAN",
    "en": "EN",
    "en_plus": "EN_PLUS",
    "es": "SPANISH",
    "fr": "FRENCH",
    "it": "ITALIAN",
    "ko": "KOREAN",
    "nl": "DUTCH",
    "no": "NORWEGIAN",
    "pt": "PORTUGUESE",
    "ru": "RUSSIAN",
    "sv": "SWEDISH",
    "tr": "TURKISH",
    "zh": "CHINESE",
}


@dataclass(frozen=True)
class Tokens:
    """Rules of BM25 that split a text into tokens.

    A token is a word: a sequence of letters, digits and underscores, in any script. Case is ignored. In a script
    without spaces, such as Chinese, each pair of adjacent characters is a token.

    Example:
        >>> Tokens(frozenset({"the"}))("The wing's 2nd flap, STRASSE, straße")
        ['wing', 's', '2nd', 'flap', 'strasse', 'strasse']
        >>> Tokens()("крыло самолёта 飞机机翼")
        ['крыло', 'самолёта', '飞机', '机机', '机翼']
    """

    stopwords: frozenset[str] = frozenset()  # words that are removed
    stemmer: Stemmer = None  # function that maps a word to its stem; "plural" for `singular`; or None
    tokenizer: Callable[[str], Iterable[str]] | None = None  # function that splits a text; None for the rules above

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of a text for BM25, in order."""
        found = split_words(text) if self.tokenizer is None else self.tokenizer(text)
        words = [word for word in found if word not in self.stopwords]
        if self.stemmer is None:
            return words
        stem_of = singular if isinstance(self.stemmer, str) else self.stemmer
        stems = [stem_of(word) for word in words]
        if wrong := [stem for stem in stems if not isinstance(stem, str)]:
            bad_type("stemmer", "return the stem of one word, as text", type(wrong[0]).__name__)
        return [stem for stem in stems if stem]


def split_words(text: str) -> list[str]:
    """Split a text into words for BM25. In a script without spaces, each pair of adjacent characters is a word.

    Args:
        text: any text.
    """
    if text.isascii():
        return re.findall(r"\w+", text.lower())
    words = []
    # NFKC: one form of accented letters, and ordinary letters instead of full-width letters and ligatures.
    for found in _pattern().finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = found[0]
        if found.lastgroup == "unspaced" and len(word) > 2:
            words += [word[place : place + 2] for place in range(len(word) - 1)]
        else:
            words.append(word)
    return words


def singular(word: str) -> str:
    """Return an English noun without its plural ending, for BM25 (after the S-stemmer of Harman, 1991).

    Args:
        word: word in lower case. Words that are not nouns change little, and equally in queries and documents.

    Example:
        >>> [singular(word) for word in ("wings", "bodies", "degrees", "mass", "gas", "radius")]
        ['wing', 'body', 'degree', 'mass', 'gas', 'radius']
    """
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    return word if word.endswith(("us", "ss")) else word[:-1]


def stopword_list(stopwords: str | Iterable[str] | None) -> frozenset[str]:
    """Return a set of stopwords for BM25: all words of the argument, and their parts according to `split_words`.

    Args:
        stopwords: language code (`"en"`, `"de"`, ...) for a list of bm25s, a list of words, or None for no stopwords.
    """
    if stopwords is None:
        return frozenset()
    if isinstance(stopwords, str):
        if stopwords not in _LANGUAGES:
            known = f"be None, words or one of {', '.join(map(repr, _LANGUAGES))}"
            bad_value("stopwords", known, *mistyped(stopwords, _LANGUAGES))
        import bm25s.stopwords

        stopwords = getattr(bm25s.stopwords, f"STOPWORDS_{_LANGUAGES[stopwords]}")
    return frozenset(word for phrase in stopwords for word in [phrase, *split_words(phrase)] if word)


@lru_cache
def _pattern() -> re.Pattern[str]:
    # `\w` does not match combining marks, which are parts of words in many scripts, such as Devanagari.
    marks = "".join(re.escape(chr(code)) for code in range(0x300, 0x1F000) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|(?P<spaced>(?:(?![{_UNSPACED}])[\\w{marks}])+)")
