"""`rankgrad text index`: reads a collection, builds a BM25 index, and saves both in one folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankgrad.errors import bad_value, one_of

PANEL = "BM25"


def index(
    collection: Annotated[str, typer.Argument(help="Folder, file, or ir_datasets:NAME.")],
    out: Annotated[Path, typer.Option(help="Folder for the index.", show_default=False)],
    queries: Annotated[
        Path | None, typer.Option(help="File with the queries, if the collection does not contain them.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="File with the labels, if the collection does not contain them.")
    ] = None,
    topic: Annotated[str, typer.Option(help="TREC topic field (default: title).", show_default=False)] = "title",
    column: Annotated[
        list[str] | None,
        typer.Option(help="Table column, as documents.text=body.", metavar="<str>"),
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of texts (default: utf-8).", show_default=False)] = "utf-8",
    similar: Annotated[
        str,
        typer.Option(help="Documents with code -1 in Cranfield: relevant or exclude (default).", show_default=False),
    ] = "exclude",
    name: Annotated[str | None, typer.Option(help="Name of the collection.")] = None,
    copy: Annotated[bool, typer.Option(help="Copy the collection into --out.")] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the index in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    k1: Annotated[
        float,
        typer.Option(help="Saturation of repeated words (default: 1.2).", show_default=False, rich_help_panel=PANEL),
    ] = 1.2,
    b: Annotated[
        float,
        typer.Option(
            help="Normalisation by length, 0 to 1 (default: 0.75).", show_default=False, rich_help_panel=PANEL
        ),
    ] = 0.75,
    stopwords: Annotated[
        str, typer.Option(help="Language code, or 'none' (default: en).", show_default=False, rich_help_panel=PANEL)
    ] = "en",
    stemmer: Annotated[
        str, typer.Option(help="plural or none (default: plural).", show_default=False, rich_help_panel=PANEL)
    ] = "plural",
) -> None:
    """Index a collection of text with BM25. The other text commands need only this index.

    Example: `rankgrad text index cranfield --out indexes/cranfield`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.text.index_folder import absolute, check_out, size_of, without_spaces, write_index
    from rankgrad.text import BM25Index, load

    one_of("stemmer", stemmer, ("plural", "none"))
    check_out(out, collection, overwrite)
    source: dict[str, Any] = {
        "source": absolute(collection),
        "queries": absolute(queries),
        "qrels": absolute(qrels),
        "topic": topic,
        "columns": _columns(column or ()),
        "encoding": encoding,
        "similar": similar,
    }
    options = {
        "stopwords": None if stopwords == "none" else stopwords,
        "stemmer": None if stemmer == "none" else stemmer,
    }
    console = messages(as_json)
    with telling(f"reading {collection}"):
        loaded = load(**source, name=name)
        found = without_spaces(loaded)
    if found is not loaded:
        console.print("note: white space in ids is replaced by _", markup=False)
    with telling(f"indexing {len(found.documents):,} documents"):
        built = BM25Index.build(found.documents, k1=k1, b=b, **options)  # type: ignore[arg-type]
        write_index(out, found, built, source, copy)
    words, labels = len(built.engine.vocab_dict), sum(map(len, found.qrels.values()))
    sizes = {"documents": len(found.documents), "queries": len(found.queries), "labels": labels, "words": words}
    if as_json:
        print_json({"index": out, "name": found.name, **sizes, "bytes": size_of(out), "notes": found.notes})
        return
    console.print(", ".join(f"{number:,} {what}" for what, number in sizes.items()), markup=False)
    console.print(f"index: {out} ({size_of(out) / 1e6:.1f} MB)", markup=False)
    where = "--out run.txt" if len(found.queries) else '--query "some words"'
    console.print(f"next:  rankgrad text search {out} {where}", markup=False)


def _columns(given: Sequence[str]) -> dict[str, dict[str, str]] | None:
    """Return the table columns of a collection, from options such as `--column documents.text=body`."""
    columns: dict[str, dict[str, str]] = {}
    for text in given:
        left, equals, name = text.partition("=")
        table, dot, part = left.partition(".")
        if not (equals and dot and name):
            bad_value("column", "have the form table.part=name, such as documents.text=body", repr(text))
        columns.setdefault(table, {})[part] = name
    return columns or None
