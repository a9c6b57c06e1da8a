"use strict";
// Draws the charts and updates them when the reader changes the selection; see also tables.js and queries.js.

const page = JSON.parse(document.getElementById("page-data").textContent);

// Converts columns to rows; a column of texts is a list of the texts and an index into it per row.
function expand(columns) {
  const names = Object.keys(columns);
  const lists = names.map((name) => (Array.isArray(columns[name]) ? columns[name] : columns[name].at.map((at) => columns[name].of[at])));
  return lists.length === 0 ? [] : lists[0].map((_, row) => Object.fromEntries(names.map((name, column) => [name, lists[column][row]])));
}

function look() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const font = "system-ui, -apple-system, 'Segoe UI', sans-serif";
  // Colours of axes and texts are set in the style sheet, for dark and light screens and for print.
  const axis = { labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, tickCount: 6 };
  return {
    renderer: "svg",
    ast: true, // expressions are interpreted, because the page's policy does not allow eval
    tooltip: { theme: dark ? "dark" : "light", disableDefaultStyle: true },
    actions: { export: true, source: false, compiled: false, editor: false },
    config: { background: null, font, view: { stroke: null }, axis, legend: { labelFontSize: 12, titleFontSize: 12 } },
  };
}

const narrow = () => matchMedia("(max-width: 48rem)").matches;

// On a narrow screen, the names of the rows are above their intervals.
function namesAbove(spec) {
  for (const layer of spec.layer) {
    layer.encoding.y.axis = { ticks: false, domain: false, grid: false, labelAlign: "left", labelPadding: -2, labelOffset: -13, labelLimit: 320 };
  }
}

async function draw(figure, chart, rows) {
  const spec = structuredClone(chart.spec);
  spec.datasets = { [chart.rows]: rows };
  if (chart.byRow && narrow()) namesAbove(spec);
  const { view } = await vegaEmbed(figure.querySelector(".drawing"), spec, look());
  return view;
}

// Hides names of points that overlap another name or another point; tooltips show all names.
function hideOverlaps(figure) {
  const boxes = [...figure.querySelectorAll(".mark-symbol.role-mark path")].map((point) => point.getBoundingClientRect());
  const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  for (const text of figure.querySelectorAll(".mark-text.role-mark text")) {
    text.removeAttribute("visibility");
    const box = text.getBoundingClientRect();
    if (boxes.some((other) => overlap(box, other))) text.setAttribute("visibility", "hidden");
    else boxes.push(box);
  }
}

async function startStudy(section, study) {
  section.querySelectorAll("figure.results").forEach(startTable);
  const choose = Object.fromEntries([...section.querySelectorAll("[data-choose]")].map((select) => [select.dataset.choose, select]));
  const chips = [...section.querySelectorAll(".chips button")];
  const drawn = [];

  async function follow() {
    const picked = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.loss);
    const signals = { of_data: choose.data.value, of_model: choose.model.value, of_metric: choose.metric.value, picked };
    for (const { view, figure, rows, everyModel, byRow } of drawn) {
      for (const [name, value] of Object.entries(signals)) view.signal(name, value);
      const shown = rows.filter((row) => row.data === signals.of_data && (everyModel || row.model === signals.of_model));
      figure.querySelector(".drawing").hidden = shown.length === 0;
      figure.querySelector(".empty").hidden = shown.length > 0;
      if (byRow) {
        view.height((narrow() ? 40 : 22) * shown.filter((row) => row.metric === signals.of_metric).length);
      }
      await view.runAsync();
      if (figure.dataset.chart === "cost") hideOverlaps(figure);
    }
    section.querySelectorAll("[data-selected]").forEach((part) => {
      part.textContent = choose[part.dataset.selected].value;
    });
  }

  for (const figure of section.querySelectorAll('.chart:not([data-chart="gains"])')) {
    const chart = study.charts[figure.dataset.chart];
    const rows = expand(study.rows[chart.rows]);
    const view = await draw(figure, chart, rows);
    drawn.push({ view, figure, rows, everyModel: chart.everyModel, byRow: chart.byRow });
    figure.querySelectorAll("[data-signal]").forEach((select) => {
      select.addEventListener("change", () => view.signal(select.dataset.signal, select.value).runAsync());
    });
  }
  const explore = await startExplorer(section.querySelector(".explorer"), study, choose);
  for (const name of ["data", "model", "metric"]) {
    choose[name].addEventListener("change", () => Promise.all([follow(), explore(name)]));
  }
  chips.forEach((chip) => {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true");
      follow();
    });
  });
  await Promise.all([follow(), explore("data")]);
  addEventListener("resize", () => setTimeout(follow, 100));
}

async function start() {
  for (const [id, study] of Object.entries(page)) await startStudy(document.getElementById(id), study);
  document.documentElement.dataset.ready = "yes";
}

start();
