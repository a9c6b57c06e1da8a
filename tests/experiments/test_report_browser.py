"""The report in a real browser: no errors, every chart is drawn, tables sort, queries open."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from browser import Browser, executable
from hostile_study import LOOK, PAYLOADS, USE, Hostile
from made_results import DATA, LOSSES, METRICS, make
from made_runs import make_runs
from programs import run_here
from tiny_collection import tiny_collection

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from rankgrad.cli import demo
from rankgrad.cli.report import _studies
from rankgrad.data import synthetic
from rankgrad.experiments.recipes.data_sets import read_recipe_data
from rankgrad.experiments.report import writer
from rankgrad.experiments.runs import results

CHARTS = ["overview", "curves", "learned-gain_base", "learned-discount_base", "learned-alpha", "cost", "sensitivity"]
CHARTS += ["gains"]

# Run in the page: labels of charts that overlap or are cut, headings of tables that are cut, texts that are too small.
FAULTS = """(() => {
  const found = [];
  for (const chart of document.querySelectorAll(".chart")) {
    const drawing = chart.querySelector("svg.marks").getBoundingClientRect();
    const shown = [...chart.querySelectorAll("svg text")].filter((each) =>
      each.textContent && getComputedStyle(each).visibility !== "hidden" && each.getAttribute("opacity") !== "0");
    const boxes = shown.map((each) => [`${chart.dataset.chart}: ${each.textContent}`, each.getBoundingClientRect()]);
    boxes.forEach(([text, a], place) => {
      if (a.left < drawing.left - 1 || a.right > drawing.right + 1 || text.endsWith("…")) found.push(`${text} is cut`);
      for (const [other, b] of boxes.slice(place + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) found.push(`${text} overlaps ${other}`);
      }
    });
  }
  for (const head of document.querySelectorAll("th")) {
    const range = document.createRange(), cell = head.getBoundingClientRect();
    range.selectNodeContents(head);
    const text = range.getBoundingClientRect();
    const cut = text.right > cell.right + 1 || text.left < cell.left - 1;
    if (head.offsetParent !== null && cut) found.push(`heading ${head.textContent} is cut`);
  }
  for (const each of document.querySelectorAll("main *")) {
    const text = [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    const size = parseFloat(getComputedStyle(each).fontSize);
    if (text && each.checkVisibility() && size < 10.5) found.push(`${each.textContent} is small`);
  }
  return found;
})()"""

# Run in the page: the numbers of the overview, from the top to the bottom of the chart.
NUMBERS = """[...document.querySelectorAll("[data-chart=overview] .mark-text.role-mark text")]
  .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map((each) => each.textContent)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("results") / "made")


@pytest.fixture(scope="module")
def studies(folder):
    return writer.gather(folder)


@pytest.fixture(scope="module")
def page(studies, tmp_path_factory):
    return writer.write_page(studies, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser():
    if executable() is None:
        if os.environ.get("RANKGRAD_BROWSER") == "required":
            pytest.fail("no Chromium, which RANKGRAD_BROWSER=required asks for")
        pytest.skip("no Chromium")
    with Browser() as one:
        yield one


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    yield browser
    assert browser.errors == []
    assert browser.requests == [page.resolve().as_uri()]  # nothing but the page itself


def texts(browser, selector):
    """The text of each element that is shown."""
    script = f"[...document.querySelectorAll({json.dumps(selector)})].filter((e) => e.offsetParent !== null)"
    return browser.evaluate(script + ".map((e) => e.innerText.trim())")


def number(text):
    return float(text.replace("\N{MINUS SIGN}", "-"))


def drawn(browser, chart):
    """Number of marks of a chart that are drawn: shapes with a size."""
    marks = ", ".join(f'[data-chart="{chart}"] svg .role-mark {kind}' for kind in ("path", "line"))
    size = "const box = e.getBBox(); return box.width + box.height > 0"
    return browser.evaluate(f"[...document.querySelectorAll('{marks}')].filter((e) => {{ {size}; }}).length")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark")])
def test_all_charts_are_drawn_without_an_error(browser, page, width, scheme):
    browser.open(page, width=width, scheme=scheme)
    assert browser.evaluate("[...document.querySelectorAll('.chart')].map((e) => e.dataset.chart)") == CHARTS
    for chart in CHARTS:
        assert drawn(browser, chart) >= 1, chart
    rows = len(LOSSES) * 2
    assert drawn(browser, "overview") == 2 * rows  # intervals and points
    numbers = browser.evaluate(NUMBERS)
    assert len(numbers) == rows
    assert numbers == sorted(numbers)[::-1]  # the best row is first
    assert drawn(browser, "curves") == len(LOSSES)
    assert drawn(browser, "cost") >= 2 * len(LOSSES)  # points and bars
    assert drawn(browser, "sensitivity") == 5 * len(LOSSES)  # a line and four points
    assert browser.errors == []
    assert browser.requests == [page.resolve().as_uri()]
    # Nothing sticks out of the screen; wide tables scroll in their frame.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(FAULTS) == []


@pytest.fixture(scope="module")
def text_studies(tmp_path_factory):
    """The study of a collection of texts, one of which looks like markup."""
    pytest.importorskip("bm25s")
    root = tmp_path_factory.mktemp("texts")
    path = tiny_collection(root / "tiny") / "documents.jsonl"
    path.write_text(path.read_text().replace("wing wing", f"wing {MARKUP} wing {'and so on ' * 30}"))
    made = make(root / "made", data=["text:path=tiny,depth=6"], models={"MLP": {"model": "mlp"}}, root=root)
    return writer.gather(made, root=root)


MARKUP = "<img src=x onerror=window.pwned=1> &amp; </script>"


@pytest.mark.parametrize("width", [1280, 390])
def test_texts_of_queries_and_documents_are_shown(browser, text_studies, tmp_path, width):
    page = writer.write_page(text_studies, tmp_path / "page.html")
    browser.open(page, width=width)
    assert len(texts(browser, ".queries tbody tr")) == 15
    browser.choose("[data-find]", "A WING")
    assert texts(browser, ".queries tbody td:first-child") == ["q0\nwhat is a wing"]
    browser.click(".queries tbody button")
    browser.wait_for("document.querySelector('.detail h4').textContent.startsWith('Query q0:')")
    assert texts(browser, ".detail h4 small") == ["what is a wing"]
    shown = dict(text.split("\n") for text in texts(browser, ".lists table:nth-child(1) td.document"))
    assert len(shown) == 6
    assert shown["d0b"] == "wing slab plate flap"
    assert shown["d0a"].startswith(f"wing {MARKUP} wing and so on and")  # as text
    assert shown["d0a"].endswith("…")
    assert len(shown["d0a"]) <= 201
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(FAULTS) == []
    assert browser.evaluate(LOOK) == []
    assert browser.errors == []
    assert browser.requests == [page.resolve().as_uri()]


@pytest.fixture(scope="module")
def runs_page(tmp_path_factory):
    """One page with a training run, a tuning run and a demo."""
    runs = make_runs(tmp_path_factory.getbasetemp() / "runs")
    data = synthetic(30)
    rankers = list(demo._rankers(data, 3, 0))
    studies = [*_studies(runs, [], None, True), demo._study(data, rankers, demo._compared(data, rankers))]
    return writer.write_page(studies, tmp_path_factory.mktemp("page") / "runs.html")


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_of_runs_and_of_the_demo_have_no_faults(browser, runs_page, width):
    browser.open(runs_page, width=width)
    assert browser.errors == []
    assert browser.requests == [runs_page.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(FAULTS) == []
    charts = browser.evaluate("[...document.querySelectorAll('#s1 .chart')].map((e) => e.dataset.chart)")
    assert charts[:3] == ["overview", "curves", "training-loss"]
    assert charts[-1] == "gains"
    assert drawn(browser, "trials-0") == 5  # the sixth trial has the default settings
    # The worst query of the run is open.
    values = [number(text) for text in texts(browser, "#s0 .queries tbody td:nth-child(3)")]
    assert values == sorted(values)
    assert texts(browser, "#s0 .queries tr[aria-current=true] td")[0] == texts(browser, "#s0 .queries tbody td")[0]
    # A select with a single choice is hidden.
    assert texts(browser, "#s2 .controls label") == texts(browser, "#s2 .controls.plain label")


def test_a_table_sorts_by_its_headings(opened):
    def column():
        return [float(text.split()[0]) for text in texts(opened, "#s0-t0-body td:nth-child(3)")]

    head = "figure.results th:nth-child(3)"
    first = column()
    for order, wanted in (("descending", sorted(first)[::-1]), ("ascending", sorted(first)), ("none", first)):
        opened.click(f"{head} button")
        assert opened.evaluate(f"document.querySelector('{head}').getAttribute('aria-sort')") == order
        assert column() == wanted
    opened.evaluate("document.querySelector('figure.results th button').focus()")
    for kind in ("keyDown", "keyUp"):
        opened.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    names = texts(opened, "#s0-t0-body th")
    assert names == sorted(names, key=str.lower) != [*LOSSES, *LOSSES]


def test_p_values_that_are_not_there_sort_last(opened):
    for _ in range(2):  # largest first, smallest first
        opened.click("figure.results th:nth-child(4) button")
        shown = texts(opened, "#s0-t0-body td:nth-child(4)")
        assert shown[-2:] == ["", ""]  # the best row of each model
        assert all(shown[:-2])


def test_a_table_filters_by_words(opened):
    opened.choose("figure.results [data-filter]", "lin lam")
    assert texts(opened, "#s0-t0-body tr th") == ["LambdaLoss"]
    assert texts(opened, "figure.results [data-count]")[0] == "1 of 8 rows"
    opened.choose("figure.results [data-filter]", "")
    assert len(texts(opened, "#s0-t0-body tr")) == 8


def test_charts_follow_the_choice(opened):
    def paths(chart):
        return opened.evaluate(
            f"[...document.querySelectorAll('[data-chart={chart}] .mark-line path')].map((e) => e.getAttribute('d'))"
        )

    def pale():
        strokes = "[...document.querySelectorAll('[data-chart=curves] .mark-line path')]"
        return opened.evaluate(f"{strokes}.filter((e) => Number(e.getAttribute('opacity') ?? 1) < 0.5).length")

    before = paths("curves")
    opened.choose('[data-choose="model"]', "Linear")
    opened.wait_for(
        f"{json.dumps(before[0])} !== document.querySelector('[data-chart=curves] .mark-line path').getAttribute('d')"
    )
    assert pale() == 0
    opened.click('[data-loss="Softmax"]')
    opened.wait_for("document.querySelectorAll('[data-loss=Softmax][aria-pressed=true]').length === 1")
    assert pale() == len(LOSSES) - 1
    before = paths("curves")
    opened.choose('[data-signal="shown"]', "own")
    opened.wait_for(
        f"{json.dumps(before[0])} !== document.querySelector('[data-chart=curves] .mark-line path').getAttribute('d')"
    )


def test_a_query_opens_with_both_lists(opened, folder):
    opened.choose('[data-choose="data"]', DATA[1])
    test = read_recipe_data(DATA[1]).test
    systems = opened.evaluate("[...document.querySelector('[data-choose=a]').options].map((e) => e.text)")
    chosen = {"a": ("MSE", "MLP"), "b": ("LambdaLoss", "Linear")}
    for letter, (loss, model) in chosen.items():
        opened.choose(f'[data-choose="{letter}"]', str(systems.index(f"{loss}, {model}")))
    place = 7
    query = str(test.qids[place])
    opened.choose("[data-find]", query)
    opened.click(".queries tbody button")
    opened.wait_for(f"document.querySelector('.detail h4').textContent.startsWith('Query {query}:')")
    runs = results.read_results(folder).final()
    for number, (letter, (loss, model)) in enumerate(chosen.items(), 1):
        own = [run for run in runs if (run.cell.data, run.cell.loss, run.cell.model) == (DATA[1], loss, model)]
        value = np.mean([run.values(METRICS[0])[place] for run in own])
        start, end = test.offsets[place : place + 2]
        first = next(run for run in own if run.cell.settings["seed"] == 0)
        best = np.argsort(-first.scores[start:end])[:10]
        table = f".lists table:nth-child({number})"
        assert texts(opened, f"{table} caption") == [f"{letter.upper()}: {loss}, {model}\n{value:.4f}"]
        assert texts(opened, f"{table} td.document") == [f"document {document + 1}" for document in best]
        assert texts(opened, f"{table} td.label") == [f"{label:g}" for label in test.labels[start:end][best]]


def test_a_query_of_a_training_run_is_explained(browser, tmp_path):
    run_here(
        "train", "--data", "synthetic:lists=30,features=10", "--model", "linear", "--epochs", 2, "--out", tmp_path / "a"
    )
    run_here("report", tmp_path / "a", "--out", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert texts(browser, ".explained caption")[0].startswith("B: document ")
    parts = [number(text) for text in texts(browser, ".explained td.number")]
    assert len(parts) == 5
    gap = number(texts(browser, ".explained caption")[0].rpartition(" ")[2])
    assert sum(parts) == pytest.approx(gap, abs=5e-4)
    assert texts(browser, ".explained td:first-child")[-1] == "6 other features"
    browser.choose('[data-choose="b"]', "1")  # the random order has no features
    browser.wait_for("document.querySelector('.explained') === null")
    assert browser.errors == []


@pytest.mark.parametrize("lists", ["--lists", "--no-lists"])
def test_a_run_of_one_epoch_with_lists_that_nobody_can_rank(browser, tmp_path, lists):
    rng, rows = np.random.default_rng(3), []
    for query in np.repeat(range(60), 8):
        rows.append(f"query {query},{int(query % 3 > 0 and rng.random() < 0.3)},{rng.random()}")
    (tmp_path / "data.csv").write_text("\n".join(["qid,label,price", *rows]) + "\n")
    out = tmp_path / "a"
    run_here("train", "--data", tmp_path / "data.csv", "--model", "linear", "--epochs", 1, "--out", out)
    run_here("report", out, "--out", tmp_path / "page.html", lists)
    browser.open(tmp_path / "page.html")
    (row,) = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    for chart, name in (("curves", "nDCG@10"), ("training-loss", "loss")):
        labels = f"document.querySelectorAll('[data-chart={chart}] .role-axis-label text')"
        ticks = browser.evaluate(f"[...{labels}].map((each) => each.textContent)")
        assert [*map(float, ticks)] == [1, pytest.approx(row[name], rel=1e-3)]
    shown = texts(browser, ".queries tbody td:first-child")
    empty = [name for name in shown if all(row.split(",")[1] == "0" for row in rows if row.startswith(f"{name},"))]
    assert 0 < len(empty) < len(shown)
    assert shown[-len(empty) :] == empty
    assert texts(browser, ".detail h4")[0].startswith(f"{shown[0]}: ")


def test_a_bar_opens_its_query(opened):
    before = texts(opened, ".detail h4")
    opened.click('[data-chart="gains"] .mark-rect path:last-child')
    opened.wait_for(f"document.querySelector('.detail h4').textContent !== {json.dumps(before[0])}")
    gains = texts(opened, ".queries tbody td:last-child")
    lowest = min(gains, key=lambda text: number(text))
    assert texts(opened, ".detail h4")[0].endswith(f"{lowest} from A to B")


def test_queries_sort(opened):
    opened.click('.queries [data-key="gain"]')
    gains = [number(text) for text in texts(opened, ".queries tbody td:last-child")]
    assert gains == sorted(gains)[::-1]
    assert len(gains) == 13


def test_a_page_without_lists_says_so(browser, folder, tmp_path):
    browser.open(writer.write_page(writer.gather(folder, lists=False), tmp_path / "page.html"))
    assert texts(browser, ".detail .note") == ["The ranked lists cannot be shown. The page was written without lists."]
    assert browser.errors == []


@pytest.mark.parametrize("width", [1280, 390])
def test_names_of_crowded_points_do_not_overlap(browser, studies, tmp_path, width):
    rows = []
    for row in studies[0].rows["cost"]:
        seconds = dict(zip(LOSSES, (1, 1.01, 1.02, 30), strict=True))[row["loss"]]
        crowded = {"seconds": seconds, "value": 0.5, "low": 0.4, "high": 0.6}
        rows.append(row | crowded | {"name": row["loss"], "name_left": ""})
    page = writer.write_page([replace(studies[0], rows={**studies[0].rows, "cost": rows})], tmp_path / "page.html")
    browser.open(page, width=width)
    assert browser.evaluate(FAULTS) == []
    shown = "[...document.querySelectorAll('[data-chart=cost] .mark-text.role-mark text:not([visibility=hidden])')]"
    assert 1 <= browser.evaluate(f"{shown}.filter((e) => e.textContent).length") < len(LOSSES)


def test_several_studies_stand_on_one_page(browser, studies, tmp_path):
    browser.open(writer.write_page([*studies, *studies], tmp_path / "page.html"))
    for study in ("#s0", "#s1"):
        assert browser.evaluate(f"document.querySelectorAll('{study} .chart svg.marks').length") == len(CHARTS)
    assert browser.errors == []


def test_it_prints(opened):
    import base64

    assert len(base64.b64decode(opened.call("Page.printToPDF", printBackground=True)["data"])) > 50_000


def test_hostile_texts_of_a_study_run_nothing(browser, studies, text_studies, tmp_path):
    # Thrice, so that each field holds several of the payloads.
    hostile = [Hostile(np.random.default_rng(seed)).study(studies[0]) for seed in range(3)]
    hostile.append(Hostile(np.random.default_rng(3)).study(text_studies[0]))
    page = writer.write_page(hostile, tmp_path / "page.html")
    browser.open(page)
    assert browser.evaluate(USE) >= len(CHARTS)  # including tooltips
    assert browser.evaluate(LOOK) == []
    assert browser.errors == []
    assert browser.requests == [page.resolve().as_uri()]


def test_the_policy_stops_what_would_be_in_the_markup(browser, page, tmp_path):
    # Were a text to come into the page as markup, it could run nothing and ask for nothing.
    text = page.read_text(encoding="utf-8").replace("<main>", "<main>" + "".join(PAYLOADS[:3]))
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    browser.open(tmp_path / "page.html", ready="document.readyState === 'complete'")
    assert browser.evaluate("new Promise((done) => setTimeout(() => done(window.pwned), 200))") is None
    stopped = [each for each in browser.errors if "Content Security Policy" in each]
    assert {each.split(" violates ")[0].split(" '")[0] for each in stopped} == {
        "Executing inline event handler", "Executing inline script", "Loading the image",
    }  # fmt: skip


def test_a_chart_can_be_saved(opened):
    opened.evaluate("document.querySelector('.drawing summary').click()")
    links = "[...document.querySelectorAll('.drawing details[open] .vega-actions a')]"
    assert texts(opened, ".drawing details[open] .vega-actions a") == ["Save as SVG", "Save as PNG"]
    opened.evaluate(f"{links}.forEach((link) => link.dispatchEvent(new MouseEvent('mousedown')))")
    opened.wait_for(f"{links}.every((link) => /^(blob|data):/.test(link.href))")
