"""Page about `rankgrad auto`: its use, and tables of the comparison at equal time."""

import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.experiments.statistics import holm, paired_t
from rankgrad.models.auto.portfolio import PORTFOLIO

from .templates import fill, table

STUDIES = Path(__file__).parents[1] / "studies"
TABLES = Path(__file__).parents[1] / "tables"
ROUNDS = 10_000
NAMES = {
    "auto": "`rankgrad auto`",
    "single": "`rankgrad auto --single`, same search",
    "student_mlp": "`--distil mlp`, same search",
    "student_lightgbm": "`--distil lightgbm`, same search",
    "lambdamart": "LambdaMART (LightGBM), random search",
    "lambdamart_all": "the same settings, trained on training and validation lists",
    "flaml": "FLAML 2.7, LightGBM",
}
FORMS = {"single": "best candidate", "even": "even blend", "greedy": "greedy selection"}  # names in the results
RIVALS = ("lambdamart", "flaml")
SETS = ("OHSUMED", "MQ2008")
Values = NDArray[np.float64]
Gaps = dict[tuple[int, str], dict[str, tuple[float, ...]]]  # seconds and data set -> competitor -> comparison
Folds = list[Values]  # for each fold, values of all queries, (seeds, queries)


def page() -> str:
    """Return the page."""
    records = json.loads(lzma.decompress((STUDIES / "auto.json.xz").read_bytes()))
    others = json.loads((STUDIES / "auto-sets.json").read_text())
    measured = json.loads((TABLES / "auto-portfolio.json").read_text())["rows"]
    gaps = _gaps(records)
    searches = [record for record in records if record["system"] == "auto"]
    longest = max(record["search_seconds"] / record["seconds"] for record in searches)
    return fill(
        "auto",
        setting=_setting(records),
        table=_table(records),
        rounds=f"{ROUNDS:,}",
        differences=_differences(gaps),
        findings="\n".join(f"- {line}" for line in _findings(records, gaps)),
        trials=str(others["facts"]["trials"]),
        others=_others(others["cells"]),
        other_findings="\n".join(f"- {line}" for line in _other_findings(others["cells"])),
        cells=str(len(searches)),
        longest=f"{longest:.0%}",
        latency=_latency(records),
        portfolio=_portfolio(measured),
        left_out=str(sum(not _is_used(row) for row in measured)),
        optimism=_optimism(measured),
    )


def values(records: list[dict[str, Any]], seconds: int, data: str, name: str) -> Folds | None:
    """Return the values of a system, one array (seeds, queries) per fold; None if it was not run."""
    found = []
    for fold in range(1, 6):
        mine = [r for r in records if (r["seconds"], r["data"], r["fold"]) == (seconds, data, fold)]
        rows = [r["values"][name] for r in sorted(mine, key=lambda r: r["seed"]) if name in r["values"]]
        if not rows:
            return None
        found.append(np.array(rows, dtype=np.float64))
    return found


def mean(folds: Folds) -> float:
    """Return the mean over all queries and seeds, in percent."""
    return 100 * float(np.concatenate([fold.mean(axis=0) for fold in folds]).mean())


def compare(first: Folds, second: Folds) -> tuple[float, float, float, float, float]:
    """Return the difference in points, its interval, and p values of the bootstrap and of a paired t-test."""
    gaps = [a - b for a, b in zip(first, second, strict=True)]  # (seeds, queries) per fold
    queries = sum(gap.shape[1] for gap in gaps)
    # A round draws the queries of all folds together, and the seeds of each fold.
    counts, drawn, start = _drawn_queries(queries), np.zeros(ROUNDS), 0
    for fold, gap in enumerate(gaps):
        seeds, size = gap.shape
        rng = np.random.default_rng([1, fold])
        weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=ROUNDS) / seeds  # (rounds, seeds)
        drawn += (weights * (counts[:, start : start + size] @ gap.T)).sum(axis=1)
        start += size
    drawn /= queries
    low, high = np.quantile(drawn, [0.025, 0.975])
    p = min(1.0, 2 * (1 + min((drawn <= 0).sum(), (drawn >= 0).sum())) / (ROUNDS + 1))
    a, b = (np.concatenate([fold.mean(axis=0) for fold in folds]) for folds in (first, second))
    return 100 * float((a - b).mean()), 100 * float(low), 100 * float(high), float(p), float(paired_t(a, b).p)


@lru_cache
def _drawn_queries(queries: int) -> Values:
    """Return how often each query is drawn in each round of the bootstrap, `(rounds, queries)`."""
    drawn = np.random.default_rng(0).integers(queries, size=(ROUNDS, queries), dtype=np.int32)
    rows = np.arange(ROUNDS, dtype=np.int64)[:, None] * queries
    return np.bincount((rows + drawn).ravel(), minlength=ROUNDS * queries).reshape(ROUNDS, queries).astype(np.float64)


def _setting(records: list[dict[str, Any]]) -> str:
    lengths = sorted({record["seconds"] for record in records})
    seeds = {length: len({r["seed"] for r in records if r["seconds"] == length}) for length in lengths}
    parts = [f"{length} seconds with {_count(seeds[length], 'seed')}" for length in lengths]
    versions = records[0]["versions"]
    known = ", ".join(f"{name} {value}" for name, value in versions.items())
    return f"{' and '.join(parts)} ({len(records)} cells; {known})"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _table(records: list[dict[str, Any]]) -> str:
    columns = [(seconds, data) for seconds in sorted({r["seconds"] for r in records}) for data in SETS]
    rows = []
    for name, shown in NAMES.items():
        found = [values(records, seconds, data, name) for seconds, data in columns]
        rows.append([shown, *("" if each is None else f"{mean(each):.2f}" for each in found)])
    return table(["system", *(f"{data}, {seconds} s" for seconds, data in columns)], rows)


def _gaps(records: list[dict[str, Any]]) -> Gaps:
    """Return the comparisons with the competitors: by seconds and data set, both data sets pooled last."""
    found: Gaps = {}
    for seconds in sorted({record["seconds"] for record in records}):
        for data in (*SETS, "both"):
            sets = SETS if data == "both" else (data,)
            row = {}
            for rival in ("lambdamart", "lambdamart_all", "flaml"):
                pairs = [(values(records, seconds, n, "auto"), values(records, seconds, n, rival)) for n in sets]
                ours, theirs = ([fold for side in pairs for fold in side[at] or []] for at in (0, 1))
                row[rival] = compare(ours, theirs)
            adjusted = holm([row[rival][3] for rival in RIVALS])
            for rival, p in zip(RIVALS, adjusted, strict=True):
                row[rival] = (*row[rival][:3], float(p), row[rival][4])
            found[seconds, data] = row
    return found


def _differences(gaps: Gaps) -> str:
    rows = []
    for (seconds, data), row in gaps.items():
        name = "both, pooled" if data == "both" else data
        shown = [_gap(row[rival]) for rival in ("lambdamart", "flaml", "lambdamart_all")]
        rows.append([f"{name}, {seconds} s", *shown])
    heads = ["", "minus LambdaMART", "minus FLAML", "minus LambdaMART on all lists (not corrected)"]
    return table(heads, rows)


def _gap(found: tuple[float, ...]) -> str:
    difference, low, high, p, t = found
    return f"{difference:+.2f} [{low:+.2f}, {high:+.2f}], {_p(p)}, {_p(t)}"


def _p(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".")


def _findings(records: list[dict[str, Any]], gaps: Gaps) -> list[str]:
    lines = []
    for (seconds, data), row in gaps.items():
        ahead = [rival for rival in RIVALS if row[rival][0] > 0 and row[rival][3] < 0.05]
        behind = [rival for rival in RIVALS if row[rival][0] < 0 and row[rival][3] < 0.05]
        names = {"lambdamart": "LambdaMART", "flaml": "FLAML"}
        where = "On both sets pooled" if data == "both" else f"On {data}"
        said = f"{where}, {seconds} s: ahead of {' and '.join(names[r] for r in ahead)} (p < .05)" if ahead else ""
        if not ahead:
            said = f"{where}, {seconds} s: not significantly ahead of either"
        if len(ahead) == 1:
            said += f", not significantly ahead of {next(names[r] for r in RIVALS if r not in ahead)}"
        lines.append(said + (f"; behind {' and '.join(names[r] for r in behind)}" if behind else "") + ".")
    short = min(record["seconds"] for record in records)
    base, whole = (mean(values(records, short, "OHSUMED", name) or []) for name in ("lambdamart", "auto"))
    for student in ("mlp", "lightgbm"):
        folds = values(records, short, "OHSUMED", f"student_{student}")
        assert folds is not None
        kept = (mean(folds) - base) / (whole - base)
        lines.append(f"OHSUMED, {short} s: the student `{student}` keeps {kept:.0%} of the gain over LambdaMART.")
    forms = [FORMS.get(record["form"], record["form"]) for record in records if record["system"] == "auto"]
    counts = ", ".join(f"{form} {forms.count(form)}" for form in dict.fromkeys(forms))
    lines.append(f"Form of the ensemble in {len(forms)} searches: {counts}.")
    return lines


def _latency(records: list[dict[str, Any]]) -> str:
    shown = []
    for name in ("auto", "single", "student_mlp", "student_lightgbm", "lambdamart"):
        times = [1e3 * r["latency"][name] for r in records if r["data"] == "OHSUMED" and name in r.get("latency", {})]
        shown.append(f"{NAMES[name].partition(',')[0]} {np.median(times):.2g} ms")
    return f"Median time for 100 documents on one core in the benchmark (OHSUMED): {', '.join(shown)}."


def _portfolio(rows: list[dict[str, Any]]) -> str:
    sets = ("OHSUMED", "MQ2008", "MSLR-sample", "generated")
    made = []
    for row in rows:
        name, _, options = row["model"].partition(":")
        short = ", ".join(options.split(",")[:2])
        numbers = [f"{row[name]['test']:.2f} ({row[name]['seconds']:.0f} s)" for name in sets]
        made.append([f"{name} {short}".strip(), f"`{row['loss']}`", *numbers, "yes" if _is_used(row) else "no"])
    return table(["model", "loss", *sets, "used"], made)


def _is_used(row: dict[str, Any]) -> bool:
    return any((entry["model"], entry["loss"]) == (row["model"], row["loss"]) for entry in PORTFOLIO)


def _optimism(rows: list[dict[str, Any]]) -> str:
    """Return the mean difference between held-out lists and test lists, for two data sets."""
    gaps = {name: np.mean([row[name]["held_out"] - row[name]["test"] for row in rows]) for name in SETS}
    return " and ".join(f"{gap:.1f} points on {name}" for name, gap in gaps.items())


def _others(cells: list[dict[str, Any]]) -> str:
    rows = []
    for name in _names(cells):
        mine = [cell for cell in cells if cell["data"] == name]
        folds = {key: [np.array([cell["values"][key]]) for cell in mine] for key in mine[0]["values"]}
        found = compare(folds["auto"], folds["best"])
        best = f"{100 * np.mean(np.concatenate(folds['achievable'], axis=1)):.2f}" if "achievable" in folds else ""
        share = f" ({mean(folds['auto']) / mean(folds['achievable']):.1%})" if best else ""
        gap = (
            "same model"
            if found[0] == found[1] == found[2] == 0
            else f"{found[0]:+.2f} [{found[1]:+.2f}, {found[2]:+.2f}], {_p(found[4])}"
        )
        forms = ", ".join(dict.fromkeys(FORMS.get(cell["form"], cell["form"]) for cell in mine))
        queries = sum(len(cell["values"]["auto"]) for cell in mine)
        shown = [f"{mean(folds['auto']):.2f}{share}", f"{mean(folds['best']):.2f}", f"{mean(folds['single']):.2f}"]
        rows.append([_label(name), str(queries), *shown, best, gap, forms])
    heads = ["data", "test lists", "`auto`", "best candidate", "`--single`", "achievable"]
    return table([*heads, "`auto` minus best candidate", "form"], rows)


def _names(cells: list[dict[str, Any]]) -> list[str]:
    """Return the names of the data sets; generated lists are in the order of their number."""

    def key(name: str) -> tuple[str, int]:
        kind, _, number = name.partition("-")
        return kind, int(number) if number.isdigit() else 0

    return sorted({cell["data"] for cell in cells}, key=key)


def _label(name: str) -> str:
    if name.startswith("generated-"):
        return f"generated, {name.partition('-')[2]} training lists"
    return {"cranfield": "Cranfield, 4 features", "vaswani": "Vaswani, 4 features"}.get(name, name)


def _other_findings(cells: list[dict[str, Any]]) -> list[str]:
    worse, shares = [], []
    for name in _names(cells):
        mine = [cell for cell in cells if cell["data"] == name]
        folds = {key: [np.array([cell["values"][key]]) for cell in mine] for key in mine[0]["values"]}
        difference, *_, t = compare(folds["auto"], folds["best"])
        if difference < 0 and t < 0.05:
            worse.append(_label(name))
        if "achievable" in folds:
            shares.append((_label(name), mean(folds["auto"]) / mean(folds["achievable"])))
    lines = [
        f"Significantly worse than its own best candidate (t-test, p < .05): {', '.join(worse) or 'on no data set'}."
    ]
    shown = "; ".join(f"{name} {share:.1%}" for name, share in shares)
    lines.append(f"Share of the achievable nDCG@10: {shown}. It depends mostly on the number of training lists.")
    return lines
