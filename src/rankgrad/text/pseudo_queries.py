"""Training lists without labels: a part of a document becomes a query, and this document is relevant.

If a cross-encoder starts from an embedding model, a few hundred labelled queries are not enough training data. The
collection itself contains more training data: a title is a query, its document is relevant, and the other documents
that BM25 finds are not relevant.
"""

import numpy as np

from rankgrad.data import Dataset
from rankgrad.errors import bad_value, one_of
from rankgrad.text.bm25 import BM25Index
from rankgrad.text.candidates import candidate_lists
from rankgrad.text.collection import Collection, Texts

SOURCES = ("auto", "title", "span")


def pseudo_queries(
    collection: Collection,
    *,
    source: str = "auto",
    number: int | None = None,
    words: tuple[int, int] = (6, 16),
    remove: bool = True,
    seed: int = 0,
) -> Collection:
    """Return a collection whose queries are parts of documents. The source document of a query is relevant.

    A document gives no query if too little other text would remain. Labels of the original collection are not used.

    Args:
        collection: documents.
        source: `"title"`, `"span"` (consecutive words at a random place), or `"auto"`: titles if there are any.
        number: maximum number of queries, sampled at random; None for one query per document.
        words: minimum and maximum number of words of a span.
        remove: True to remove the query from its document; otherwise a ranker could simply search for the same words.
            Use False if the labels come from a teacher.
        seed: random seed of the spans and of the sample of queries.

    Example:
        >>> documents = Texts(("d1", "d2"), ("Wings at rest.", "Heat in slabs of steel."), titles=("Wings", "Heat"))
        >>> made = pseudo_queries(Collection(documents, Texts((), ())))
        >>> made.queries.texts, made.documents.texts, made.qrels["d2"]
        (('Wings', 'Heat'), ('at rest.', 'in slabs of steel.'), {'d2': 1})
    """
    one_of("source", source, SOURCES)
    documents, rng = collection.documents, np.random.default_rng(seed)
    if source == "auto":
        source = "span" if documents.titles is None or not any(documents.titles) else "title"
    if source == "title" and documents.titles is None:
        bad_value("source", "be 'span' or 'auto' for documents without titles", "'title'")
    found: dict[int, tuple[str, str]] = {}  # number of a document -> its part, and its text without the part
    for place, text in enumerate(documents.texts):
        made = _title(documents, place) if source == "title" else _span(text, words, rng)
        if made is not None:
            found[place] = made
    places = np.array([*found], dtype=np.int64)
    if number is not None and number < len(places):
        places = np.sort(rng.permutation(places)[:number])
    if not len(places):
        bad_value("collection", f"have a document that is longer than its {source}", "none")
    chosen = places.tolist()
    ids = tuple(documents.ids[place] for place in chosen)
    if remove:
        bodies, titles = list(documents.texts), list(documents.titles or ())
        for place in chosen:
            bodies[place] = found[place][1]
            if source == "title":
                titles[place] = ""
        documents = Texts(documents.ids, tuple(bodies), tuple(titles) if titles else None)
    return Collection(
        documents,
        Texts(ids, tuple(found[place][0] for place in chosen)),
        {each: {each: 1} for each in ids},
        name=f"{collection.name} pseudo queries".strip(),
    )


def pseudo_lists(collection: Collection, *, depth: int = 32, **options: object) -> Dataset:
    """Return one training list per pseudo query: its source document, and the best documents of BM25.

    Args:
        collection: documents.
        depth: maximum number of documents of BM25 per query.
        options: options of `pseudo_queries`.
    """
    made = pseudo_queries(collection, **options)  # type: ignore[arg-type]
    run = BM25Index.build(made.documents).search(made.queries, k=depth)
    return candidate_lists(made, run, depth=depth, add_relevant=True)


def _title(documents: Texts, place: int) -> tuple[str, str] | None:
    """Return the title of a document as a pseudo query, and the text without the title."""
    assert documents.titles is not None
    title, text = documents.titles[place].strip(), documents.texts[place].strip()
    body = text[len(title) :].strip() if text.startswith(title) else text
    return (title, body) if title and body else None


def _span(text: str, words: tuple[int, int], rng: np.random.Generator) -> tuple[str, str] | None:
    """Return consecutive words of a text as a pseudo query, and the other words."""
    split = text.split()
    length = int(rng.integers(words[0], words[1] + 1))
    if len(split) < length + words[0]:
        return None
    start = int(rng.integers(0, len(split) - length + 1))
    return " ".join(split[start : start + length]), " ".join([*split[:start], *split[start + length :]])
