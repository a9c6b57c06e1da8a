"use strict";
// Sorts a table by a click on a heading, shows only the rows that contain all words of a filter, and says if it is wide.

function startTable(figure) {
  const table = figure.querySelector("table.sortable");
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const first = [...body.rows];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const number = head.classList.contains("number");
      const now = head.getAttribute("aria-sort");
      // Numbers begin with the largest, names with the first; a third click restores the recipe's order.
      const cycle = number ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
      const next = cycle[(cycle.indexOf(now) + 1) % 3];
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? next : "none"));
      body.append(...(next === "none" ? first : sorted(first, column, number, next === "descending" ? -1 : 1)));
    });
  });
  const wide = figure.querySelector(".wide");
  if (wide.scrollWidth > wide.clientWidth + 1) {
    const hint = document.createElement("p");
    hint.className = "note scroll";
    hint.textContent = "Scroll the table sideways to see all columns.";
    wide.after(hint);
  }
  const filter = figure.querySelector("[data-filter]");
  if (filter === null) return;
  const count = figure.querySelector("[data-count]");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    first.forEach((row) => {
      const text = [...row.cells].filter((cell) => !cell.classList.contains("number")).map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    });
    const left = first.filter((row) => !row.hidden).length;
    count.textContent = words.length ? `${left} of ${first.length} rows` : "";
  });
}

function sorted(rows, column, number, sign) {
  const key = (row) => (number ? parseFloat(row.cells[column].dataset.value) : row.cells[column].textContent);
  return [...rows].sort((x, y) => {
    const [a, b] = [key(x), key(y)];
    if (!number) return sign * a.localeCompare(b);
    // Missing values stay last in both directions.
    return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b);
  });
}
