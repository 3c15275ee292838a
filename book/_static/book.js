// The head of a table's column sorts its rows: by their numbers, else by their words; again, the other way round.
document.addEventListener("DOMContentLoaded", () => {
  // the theme leaves the title above its list of pages outside of every landmark
  const side = document.querySelector(".bd-sidebar-primary");
  if (side) Object.entries({ role: "region", "aria-label": "Book" }).forEach((pair) => side.setAttribute(...pair));
  const contents = document.querySelector(".bd-sidebar-secondary");
  if (contents) contents.tabIndex = 0;  // it scrolls, so that keys must reach it also where it is folded away
  const value = (row, at) => {
    const cell = row.cells[at], number = parseFloat(cell.dataset.value);
    return Number.isNaN(number) ? cell.textContent.trim() : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b);
  for (const table of document.querySelectorAll(".biaslib-table table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 4) continue;
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => compare(value(a, at), value(b, at)) * (down ? -1 : 1));
        body.append(...rows);
      });
    });
  }
});
