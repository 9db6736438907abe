"""Reports. In: the results of the API. Out: records (dicts of plain values), terminal lines, Markdown, pictures, HTML."""
