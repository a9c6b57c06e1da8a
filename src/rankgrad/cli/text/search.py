"""`rankgrad text search`: searches an index with BM25, with embeddings, or with both."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankgrad.cli.option_groups import Device
from rankgrad.cli.text import options
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.metrics.trec import Run
    from rankgrad.text import Collection

HITS, SNIPPET = 10, 160  # default number of documents with --query; characters of a snippet


def search(
    index: options.Index,
    query: Annotated[str | None, typer.Option(help="Search for this text, and print the documents.")] = None,
    queries: options.Queries = None,
    k: Annotated[
        int | None, typer.Option(help="Documents per query (default: 100; 10 with --query).", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="TREC run to write.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Bi-encoder for a search of embeddings: folder, or name of a model.")
    ] = None,
    fuse: Annotated[bool, typer.Option("--fuse", help="Add the z-scores of BM25 and of the embeddings.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Save embeddings of documents in the index folder.")] = False,
    tag: Annotated[str | None, typer.Option(help="Name of the run (default: bm25, embeddings or fused).")] = None,
    device: Device = "auto",
) -> None:
    """Search an index. Without --encoder, BM25 ranks the documents. The search of embeddings is exact.

    With --fuse, BM25 and embeddings find --k documents each. If one of these searches does not find a document, the
    document gets the lowest score of this search.

    Example: `rankgrad text search indexes/cranfield --out run.txt`

    Example: `rankgrad text search indexes/cranfield --query "wing flutter"`
    """
    from rankgrad.cli.argument_checks import check_device, together
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.metrics import write_run
    from rankgrad.text import Texts

    def fits() -> None:
        if query is not None and queries is not None:
            bad_value("query", "not be given with --queries", "both")
        if query is None and out is None:
            bad_value("out", "be given if --query is not given", None)
        if fuse and encoder is None:
            bad_value("encoder", "be given with --fuse", None)
        if k is not None and k < 1:
            bad_value("k", "be at least 1", k)

    together(fits, lambda: IndexFolder.open(index), lambda: check_device(device))
    folder = IndexFolder.open(index)
    number = k or (100 if query is None else HITS)
    with telling(f"reading {index}"):
        if query is None:
            collection = folder.with_queries(queries)
        else:
            from dataclasses import replace

            collection = replace(folder.collection(), queries=Texts(("query",), (query,)), qrels={}, excluded={})
    run, kind = _search(folder, collection, number, encoder, fuse, keep, device)
    if out is not None:
        write_run(out, run, tag or kind)
    if query is not None:
        _print_hits(collection, run["query"])
    if out is not None:
        documents = sum(map(len, run.values()))
        messages().print(f"{documents:,} documents of {len(run):,} queries: {out}", markup=False)


def _search(
    folder: "IndexFolder", collection: "Collection", k: int, encoder: str | None, fuse: bool, keep: bool, device: str
) -> "tuple[Run, str]":
    """Search an index, and return the run and the name of the search: bm25, embeddings or fused."""
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.text.first_stage import fused
    from rankgrad.cli.text.text_models import embeddings_of, load_bi_encoder
    from rankgrad.text import search_embeddings

    texts = collection.queries
    found = []
    if encoder is None or fuse:
        with telling("searching with BM25"):
            found.append(folder.bm25().search(texts, k, collection.excluded))
    if encoder is not None:
        with telling():
            ranker = load_bi_encoder(encoder, device)
            documents = embeddings_of(folder, collection, ranker, keep)
            asked = ranker.encode([texts.full(number) for number in range(len(texts))], documents=False)
        found.append(search_embeddings(texts, collection.documents, asked, documents, k, excluded=collection.excluded))
    if len(found) == 2:
        return fused(found, k), "fused"
    return found[0], "bm25" if encoder is None else "embeddings"


def _print_hits(collection: "Collection", hits: dict[str, float]) -> None:
    """Print one row per document: id, score, and a part of the text with words of the query."""
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.terminal_tables import print_names

    documents, query = collection.documents, collection.queries.texts[0]
    if not hits:
        messages().print("no document contains a word of the query")
        return
    rows = [
        (document, f"{score:.3f}", snippet(documents.full(documents.numbers[document]), query))
        for document, score in hits.items()
    ]
    print_names(("document", "score", "text"), rows)


def snippet(text: str, query: str, length: int = SNIPPET) -> str:
    """Return a part of a found document. The part begins shortly before the first long word of the query.

    Example:
        >>> snippet("A study of flow over a wing in a slipstream.", "the wing", length=20)
        '…r a wing in a slip…'
    """
    import re

    plain = " ".join(text[:1_000_000].split())
    words = {word.lower() for word in re.findall(r"\w{4,}", query)}
    places = [place for word in words if (place := plain.lower().find(word)) >= 0]
    start = max(0, min(places, default=0) - length // 4) if len(plain) > length else 0
    start = min(start, max(0, len(plain) - length))
    part = plain[start : start + length]
    before, after = start > 0, start + length < len(plain)
    return ("…" + part[1:] if before else part)[: length - after] + ("…" if after else "")
