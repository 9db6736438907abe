"""Reports. In: the results of the API. Out: records (dicts of plain values), terminal lines, Markdown, pictures, HTML.

The package has the name of a verb and can be called: `tinyweave.report(deployment)`.
"""

from ..lazy import make_callable

make_callable("report", "report.page.merging")
