"""Reports. In: what the API returns. Out: a record of plain values, terminal lines, Markdown."""
