/* Tables of at least 20 rows: a click on the head of a column sorts the rows, and the field above the table filters them. */
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const [body, heads] = [table.tBodies[0], table.tHead.rows[0].cells];
  if (body.rows.length < 20) continue;

  const field = Object.assign(document.createElement("input"), {type: "search", className: "table-filter", placeholder: "filter the rows"});
  field.setAttribute("aria-label", "filter the rows of the table");
  field.oninput = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  };
  table.before(field);

  [...heads].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const down = head.ariaSort === "ascending";
      for (const each of heads) each.ariaSort = each === head ? (down ? "descending" : "ascending") : null;
      const value = (row) => {
        const text = row.cells[column].textContent.trim();
        const number = Number(text.replaceAll(",", ""));
        return [text === "–" ? 2 : text && !Number.isNaN(number) ? 0 : 1, number, text];  // numbers, then texts, then gaps
      };
      const before = (a, b) => (a[0] === 0 ? a[1] - b[1] : a[2].localeCompare(b[2])) * (down ? -1 : 1);
      const rows = [...body.rows].map((row) => [value(row), row]).sort(([a], [b]) => a[0] - b[0] || before(a, b));
      body.append(...rows.map(([, row]) => row));
    };
  });
}
