"""Docstrings, messages, help texts and pages are in plain technical English: no phrase that has to be read twice."""

import ast
import re

from paths import ROOT, SOURCE

MODULES = sorted(SOURCE.rglob("*.py"))
PAGES = [
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("studies/*/*.md"),
    *(SOURCE / "recipes").glob("*"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
FIRST_WORDS = re.compile(r"(What|Where|Which|How|Whether|Who|When)\b")
NOUNS = (
    "list|document|row|line|epoch|step|query|cell|run|file|column|pair|rank|table|command|batch|block|tree|fold|seed"
)
COUNTED = "value|score|line|row|number|file|byte|second|document|feature|column|id|program|process|weight|label|gain"
PHRASES = {
    "one a (write: one per)": rf"\bone an? ({NOUNS}|ranker|metric|model|loss|name|core)\b",
    "... a list (write: per list)": rf"\b({COUNTED})s? an? ({NOUNS})\b",
    "go on (write: continue, resume)": r"\b(go|goes|gone|going) on\b",
    "come to (write: is, becomes)": r"\b(came|comes?) to\b",
    "house, room": r"\b(house|rooms?)\b",
    "manners, kin, verb, anew": r"\b(manners|kin|verbs?|anew)\b",
    "stands for (write: is, means)": r"\bstands? for\b",
    "too (write: also)": r"(, too\b|\btoo[.;:])",
    "beside it (write: next to it)": r"\bbeside (it|them|ours)\b",
    "so is, so are (write: also)": r"[;,] so (is|are|was|were|does|do) (the|a|its|their)\b",
    "... is none (write: is not a ...)": r"(, and|, but|, which) [^,;]{1,30} is none\b",
    "to spare, the remedy": r"\b(to spare|the remedy)\b",
}


def test_docstrings_begin_with_what_the_thing_does():
    found = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None
            if text and FIRST_WORDS.match(text):
                found.append(f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}: {text.splitlines()[0]}")
    assert found == [], "\n".join(found)


def test_phrases_that_are_read_twice_occur_nowhere():
    found = []
    for path in [*MODULES, *PAGES]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name, pattern in PHRASES.items():
                if re.search(pattern, line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {name}: {line.strip()}")
    assert found == [], "\n".join(found)


def test_the_patterns_find_what_they_should():
    for text, name in {
        "weights, one a ranker": "one a (write: one per)",
        "8 bytes a row": "... a list (write: per list)",
        "To go on: the same command": "go on (write: continue, resume)",
        "what a cell came to": "come to (write: is, becomes)",
        "leaves room for sums": "house, room",
        "The value of each list, too.": "too (write: also)",
        "It is optional; so is the test file": "so is, so are (write: also)",
        "be given only for a table, and {self.data} is none": "... is none (write: is not a ...)",
        "documents that have no part to spare": "to spare, the remedy",
    }.items():
        assert [each for each, pattern in PHRASES.items() if re.search(pattern, text)] == [name]
    assert FIRST_WORDS.match("Whether a folder holds a run.")
    assert not FIRST_WORDS.match("Whatever")
