"""A study whose every text is hostile, and what a page made of it may hold: the elements of our templates only."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

from rankgrad.experiments.tables.plain_table import PlainTable

# What an attacker would put in a name; `#` becomes the number of the text, so that what ran says where it came from.
PAYLOADS = (
    '"><img src=x onerror="window.pwned=#">',
    "'><svg onload='window.pwned=#'>",
    "</script><script>window.pwned=#</script>",
    "<!--<script>window.pwned=#//",
    "</title></style></textarea></pre></select><script>window.pwned=#</script>",
    '" onmouseover="window.pwned=#" autofocus onfocus="window.pwned=#" x="',
    "javascript:window.pwned=#//",
    "<iframe srcdoc='<script>parent.pwned=#</script>'></iframe>",
    "<math><mtext><style><img src=x onerror=window.pwned=#>",
    "&lt;img src=x onerror=window.pwned=#&gt;&quot;",
    "<style>*{background:url(https://example.invalid/#)}</style><base href=https://example.invalid/#>",
    "<link rel=stylesheet href=https://example.invalid/#><meta http-equiv=refresh content='0;url=//example.invalid'>",
    "<form action=//example.invalid/#><button>",
    "{{data}}{{library}}#",
    "'+(window.pwned=#)+'",
    '"||(window.pwned=#)||"',
    "${window.pwned=#}`",
    "]}\u2028window.pwned=#\u2029",
    "datum['constructor']['constructor']('window.pwned=#')()",
    "image#",
    "__proto__",
    "constructor",
    "toString",
    "  two  spaces  # ",
    "line\nbreak #",
    "\\u003cimg src=x onerror=window.pwned=#\\u003e",
    "\N{RIGHT-TO-LEFT OVERRIDE}#\N{COMBINING ACUTE ACCENT}" * 20,
    "#" * 300,
)
_NAMES = (
    "a body button caption circle clippath defs details div figcaption figure footer g h1 h2 h3 h4 head header html"
    " input label li line lineargradient link main meta nav noscript option p path pre rect script section select small"
    " span stop strong style summary sup svg table tbody td text th thead title tr tspan ul"
)
ELEMENTS = frozenset(_NAMES.split())


class Hostile:
    """Texts to hostile texts, the same to the same, so that what belongs together still does."""

    def __init__(self, rng):
        self.rng, self.known = rng, {}

    def text(self, text):
        """A hostile text for this one."""
        if text not in self.known:
            drawn = [PAYLOADS[place] for place in self.rng.integers(len(PAYLOADS), size=self.rng.integers(1, 3))]
            made = "".join(drawn).replace("#", str(len(self.known)))
            self.known[text] = made if made not in self.known.values() else f"{made}{len(self.known)}"
        return self.known[text]

    def deep(self, value, keep=()):
        """All texts inside lists and mappings, but for the keys and what lies under the keys to `keep`."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: inner if key in keep else self.deep(inner, keep) for key, inner in value.items()}
        return type(value)(self.deep(inner, keep) for inner in value) if isinstance(value, list | tuple) else value

    def study(self, study):
        """The study with hostile texts; metrics, which are parsed, and the step, which we name, stay what they are."""
        tables = []
        for table in study.tables:
            if isinstance(table, PlainTable):
                rows = [tuple(field._replace(text=self.text(field.text)) for field in row) for row in table.rows]
                own = {
                    "title": self.text(table.title),
                    "heads": self.deep(table.heads),
                    "notes": self.deep(table.notes),
                }
                tables.append(replace(table, rows=tuple(rows), **own))
                continue
            rows = [replace(row, model=self.text(row.model), loss=self.text(row.loss)) for row in table.rows]
            notes = self.deep(table.notes)
            tables.append(
                replace(table, title=self.text(table.title), data=self.text(table.data), rows=rows, notes=notes)
            )
        names = ("title", "summary", "warnings", "facts", "texts", "data", "models", "losses", "measured", "queries")
        texts = {
            name: self.deep(getattr(study, name))
            for name in (*names, "curves", "spread", "heading", "tested", "importance")
        }
        texts["settings"] = tuple((self.text(setting), scale) for setting, scale in study.settings)
        explorers = {}
        for data, found in study.explorers.items():
            explorers[self.text(data)] = self.deep(found, keep=("metrics", "codes", "top", "order"))
        rows = {name: self.deep(own, keep=("metric",)) for name, own in study.rows.items()}
        return replace(study, tables=tuple(tables), rows=rows, explorers=explorers, **texts)


class _Markup(HTMLParser):
    """Faults in the markup of a page: elements and attributes that no template of ours makes."""

    def __init__(self):
        super().__init__()
        self.faults, self.scripts, self.inside = [], [], False

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "script"
        self.scripts += [""] if self.inside else []
        if tag not in ELEMENTS:
            self.faults.append(f"<{tag}>")
        for name, value in attributes:
            if not re.fullmatch(r"aria-[a-z]+|data-[a-z]+|[a-z0-9-]+", name) or name.startswith("on"):
                self.faults.append(f"<{tag} {name}>")
            if name in ("href", "src", "style", "srcdoc", "action") and not re.fullmatch(r"data:,|#s\d+", value or ""):
                self.faults.append(f"<{tag} {name}={value!r}>")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def faults(page):
    """What is wrong with a page's markup, as far as a parser of HTML can say: empty for a clean one."""
    markup = _Markup()
    markup.feed(page)
    found = markup.faults
    if len(markup.scripts) != 3:
        found.append(f"{len(markup.scripts)} scripts")
    else:
        json.loads(markup.scripts[0])
    if re.search(r"<!--|</script", markup.scripts[0], re.IGNORECASE):
        found.append("data that ends its script element")
    return found


# Run in the page: everything that no template of ours makes.
LOOK = """(() => {
  const known = new Set("NAMES".split(" ")), found = [];
  if (window.pwned !== undefined) found.push(`ran ${window.pwned}`);
  for (const each of document.querySelectorAll("*")) {
    const ours = known.has(each.tagName.toLowerCase()) || each.matches("form.vega-bindings:empty");
    if (!ours) found.push(`<${each.tagName}>`);
    for (const { name } of each.attributes) if (name.startsWith("on")) found.push(`<${each.tagName} ${name}>`);
  }
  if (document.scripts.length !== 3) found.push(`${document.scripts.length} scripts`);
  return found;
})()""".replace("NAMES", _NAMES)

# Run in the page: what a reader does, as far as it puts texts into the page.
USE = """(async () => {
  const wait = () => new Promise((done) => setTimeout(done, 20));
  const shown = [];
  for (const figure of document.querySelectorAll(".chart")) {
    const mark = figure.querySelector(".role-mark path, .role-mark line");
    if (!mark) continue;
    for (const kind of ["pointerover", "pointermove", "mouseover", "mousemove"]) {
      mark.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX: 5, clientY: 5 }));
    }
    await wait();
    shown.push(document.querySelector("#vg-tooltip-element")?.textContent ?? "");
  }
  document.querySelector(".chips button")?.click();
  for (const select of document.querySelectorAll("select")) {
    select.selectedIndex = select.options.length - 1;
    select.dispatchEvent(new Event("change"));
    await wait();
  }
  document.querySelectorAll(".queries tbody button, thead button").forEach((button) => button.click());
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  await wait();
  return shown.filter(Boolean).length;
})()"""
