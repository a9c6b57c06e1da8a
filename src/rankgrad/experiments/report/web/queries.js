"use strict";
// The query explorer: the difference of each query between two models, and its two lists side by side.

const LABELS = 4; // the highest label of most data sets; shades are relative to the highest label of the query, but at least to half of this

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function decode(coded, system) {
  const raw = bytes(coded.codes[system]);
  return Array.from({ length: raw.length / 2 }, (_, place) => {
    const code = raw[2 * place] + 256 * raw[2 * place + 1];
    return code === 0xffff ? NaN : coded.low + coded.step * code;
  });
}

function topDocuments(lists, system, query) {
  const raw = bytes(lists.top[system]);
  const count = Math.min(lists.first, lists.labels[query].length);
  return Array.from({ length: count }, (_, rank) => {
    const at = (query * lists.first + rank) * lists.bytes;
    return lists.bytes === 1 ? raw[at] : raw[at] + 256 * raw[at + 1];
  });
}

async function startExplorer(section, study, choose) {
  const body = section.querySelector("tbody");
  const heads = [...section.querySelectorAll("thead th")];
  const find = section.querySelector("[data-find]");
  const state = { found: null, rows: [], query: null, key: "apart", sign: -1 };
  let view = null;

  function name(system) {
    const { model, loss } = state.found.systems[system];
    return choose.model.options.length > 1 ? `${loss}, ${model}` : loss;
  }

  function show(number, signed = false) {
    const text = Math.abs(number).toFixed(study.digits);
    return (number < 0 && Number(text) !== 0 ? "−" : signed && Number(text) !== 0 ? "+" : "") + text;
  }

  // Selects the pair of the page or, if there is none, the best loss of the chosen model as B and the second best as A.
  function fillSystems() {
    const { found } = state;
    const metric = Math.max(0, found.metrics.indexOf(choose.metric.value));
    const mean = (values) => values.filter((value) => !Number.isNaN(value)).reduce((sum, value, _, all) => sum + value / all.length, 0);
    const means = found.systems.map((_, system) => mean(decode(found.values[metric], system)));
    const sameModel = found.systems.map((_, system) => system).filter((system) => found.systems[system].model === choose.model.value);
    const order = (sameModel.length > 1 ? sameModel : found.systems.map((_, system) => system)).sort((x, y) => means[y] - means[x]);
    const [a, b] = found.pair ?? [order[1] ?? order[0], order[0]];
    for (const [letter, chosen] of [["a", a], ["b", b]]) {
      choose[letter].replaceChildren(...found.systems.map((_, system) => element("option", { value: system }, name(system))));
      choose[letter].value = String(chosen);
    }
  }

  async function compare() {
    const { found } = state;
    const metric = Math.max(0, found.metrics.indexOf(choose.metric.value));
    const [a, b] = [Number(choose.a.value), Number(choose.b.value)];
    const [before, after] = [decode(found.values[metric], a), decode(found.values[metric], b)];
    state.rows = found.queries
      .map((query, place) => ({ place, query, a: before[place], b: after[place], gain: after[place] - before[place], empty: Number(found.empty.includes(place)) }))
      .filter((row) => !Number.isNaN(row.gain))
      .map((row) => ({ ...row, apart: Math.abs(row.gain) }));
    summarise(found.metrics[metric]);
    const bars = [...state.rows].sort((x, y) => y.gain - x.gain).map((row, place) => ({ ...row, of: row.place, place, next: place + 1 }));
    if (view === null) {
      const figure = section.querySelector('[data-chart="gains"]');
      view = await draw(figure, study.charts.gains, bars);
      view.addEventListener("click", (_, item) => item && item.datum && item.datum.of !== undefined && open(item.datum.of, true));
    } else {
      await view.data("gains", bars).runAsync();
    }
    list();
    const still = state.rows.find((row) => row.place === state.query);
    if (state.rows.length > 0) open((still ?? inOrder()[0]).place);
  }

  function summarise(metric) {
    const tie = 0.5 * 10 ** -study.digits;
    const [better, worse] = [state.rows.filter((row) => row.gain > tie), state.rows.filter((row) => row.gain < -tie)];
    const mean = state.rows.reduce((sum, row) => sum + row.gain / state.rows.length, 0);
    const part = state.found.queries.length < state.found.all;
    const which = part ? `the ${state.found.queries.length} queries (of ${state.found.all}) whose values differ most between models` : `${state.rows.length} queries`;
    section.querySelector(".summary").textContent =
      `${metric} over ${which}: B is better on ${better.length}, worse on ${worse.length}, equal on ` +
      `${state.rows.length - better.length - worse.length}; mean of B - A ${show(mean, true)}.`;
  }

  // Returns the queries in the chosen order; of equal queries, the one with the larger difference is first. If the worst
  // are first, queries without a relevant document are last, because no order of their documents is better.
  function inOrder() {
    const worst = (state.key === "a" || state.key === "b") && state.sign > 0;
    const order = (x, y) => (state.key === "query" ? x.query.localeCompare(y.query, undefined, { numeric: true }) : x[state.key] - y[state.key]);
    return [...state.rows].sort((x, y) => (worst ? x.empty - y.empty : 0) || state.sign * order(x, y) || y.apart - x.apart);
  }

  function queryText(place) {
    return state.found.lists?.texts[place]?.query ?? "";
  }

  function asText(text) {
    return text === "" ? [] : [element("small", { dir: "auto" }, text)];
  }

  function list() {
    const wanted = find.value.trim().toLowerCase();
    const rows = inOrder().filter((row) => `${row.query} ${queryText(row.place)}`.toLowerCase().includes(wanted));
    const some = rows.slice(0, 50);
    body.replaceChildren(...some.map((row) => {
      const button = element("button", { type: "button" }, row.query);
      button.addEventListener("click", () => open(row.place, true));
      const numbers = [show(row.a), show(row.b), show(row.gain, true)].map((text) => element("td", { class: "number" }, text));
      const query = element("td", {}, button, ...asText(queryText(row.place)));
      return element("tr", { "data-place": row.place, "aria-current": row.place === state.query }, query, ...numbers);
    }));
    section.querySelector("[data-shown]").textContent = rows.length > some.length ? `The first ${some.length} of ${rows.length} queries.` : `${rows.length} queries.`;
  }

  function open(place, seek = false) {
    state.query = place;
    const row = state.rows.find((each) => each.place === place);
    body.querySelectorAll("tr").forEach((each) => each.setAttribute("aria-current", each.dataset.place === String(place)));
    const detail = section.querySelector(".detail");
    const { lists } = state.found;
    const called = /^query/i.test(row.query) ? row.query : `Query ${row.query}`;
    const heading = element("h4", {}, `${called}: ${show(row.gain, true)} from A to B`, ...asText(queryText(place)));
    if (lists === null) {
      detail.replaceChildren(heading, element("p", { class: "note" }, `The ranked lists cannot be shown. ${state.found.why}`));
    } else {
      const [a, b] = [choose.a.value, choose.b.value].map((system) => topDocuments(lists, Number(system), place));
      const tables = [["A", a, b, row.a, choose.a], ["B", b, a, row.b, choose.b]].map(([letter, shown, other, value, select]) =>
        ranking(`${letter}: ${name(Number(select.value))}`, show(value), shown, other, place));
      const note = `The first ${a.length} of ${lists.labels[place].length} documents, with their labels, and their rank in the other list.`;
      detail.replaceChildren(heading, element("div", { class: "lists" }, ...tables), element("p", { class: "note" }, note), ...explained(row));
    }
    if (seek) detail.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  // Returns the contributions of features to the difference of two scores, if the page has them for this query.
  function explained(row) {
    const { explanations, lists } = state.found;
    if (!explanations || !Object.hasOwn(explanations.queries, row.query)) return [];
    const letter = [["B", choose.b], ["A", choose.a]].find(([, select]) => Number(select.value) === explanations.system)?.[0];
    if (letter === undefined) return [];
    const { documents, gap, terms } = explanations.queries[row.query];
    const [first, second] = documents.map((document) => (lists.ids === null ? `document ${document + 1}` : lists.ids[row.place][document]));
    const most = Math.max(...terms.map(([, value]) => Math.abs(value))) || 1;
    const rows = terms.map(([feature, value]) => {
      const bar = element("span", { class: value < 0 ? "part minus" : "part" });
      bar.style.width = `${(6 * Math.abs(value)) / most}rem`;
      return element("tr", {}, element("td", {}, feature), element("td", { class: "number" }, show(value, true)), element("td", {}, bar));
    });
    const title = `${letter}: ${first} is above ${second}, because of these parts of the score difference ${show(gap, true)}`;
    return [element("table", { class: "explained" }, element("caption", {}, title), element("tbody", {}, ...rows))];
  }

  function ranking(title, value, shown, other, query) {
    const { labels, ids, texts } = state.found.lists;
    const top = Math.max(LABELS / 2, ...labels[query]);
    const rows = shown.map((document, rank) => {
      const label = labels[query][document];
      const shade = element("span", {}, String(label));
      shade.style.background = `rgba(var(--relevant), ${(0.75 * Math.max(0, label)) / top})`;
      const there = other.indexOf(document);
      const moved = there < 0 ? "–" : there === rank ? "=" : `${there > rank ? "▲" : "▼"} ${there + 1}`;
      const id = ids === null ? `document ${document + 1}` : ids[query][document];
      const text = texts[query]?.documents[document] ?? "";
      const made = element("tr", { "data-document": document },
        element("td", { class: "rank number" }, String(rank + 1)), element("td", { class: "label" }, shade),
        element("td", { class: "document", title: text || id }, id, ...asText(text)), element("td", { class: "moved" }, moved));
      made.addEventListener("mouseenter", () => mark(document));
      made.addEventListener("mouseleave", () => mark(null));
      return made;
    });
    const head = ["#", "label", "document", "other"].map((text, place) =>
      element("th", { scope: "col", class: ["rank number", "label", "document", "moved"][place] }, text));
    return element("table", {}, element("caption", {}, title, element("span", {}, value)),
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  }

  function mark(document) {
    section.querySelectorAll(".lists tr[data-document]").forEach((row) => row.classList.toggle("same", row.dataset.document === String(document)));
  }

  heads.forEach((head) => {
    const button = head.querySelector("button");
    button.addEventListener("click", () => {
      const { key } = button.dataset;
      state.sign = state.key === key ? -state.sign : key === "query" ? 1 : -1;
      state.key = key;
      heads.forEach((other) => other.setAttribute("aria-sort", other !== head ? "none" : state.sign < 0 ? "descending" : "ascending"));
      list();
    });
  });
  find.addEventListener("input", list);
  choose.a.addEventListener("change", compare);
  choose.b.addEventListener("change", compare);

  return async function explore(changed) {
    state.found = Object.hasOwn(study.explorers, choose.data.value) ? study.explorers[choose.data.value] : null;
    section.hidden = state.found === null;
    if (state.found === null) return;
    if (changed === "data") {
      state.query = null;
      [state.key, state.sign] = state.found.order === "worst" ? ["b", 1] : ["apart", -1];
      heads.forEach((head) => head.setAttribute("aria-sort", state.key === "b" && head.querySelector("[data-key=b]") ? "ascending" : "none"));
    }
    if (changed !== "metric") fillSystems();
    await compare();
  };
}
