"""The first lines of a figure of the pages: an SVG with a white background and a title."""

WIDTH, LEFT = 1120, 88  # pixels: of the figure, and its left margin
COLOURS = ("#4878a8", "#e49444", "#85b6b2", "#6a9f58", "#e7ca60", "#a87c9f", "#f1a2a9", "#967662", "#b8b0ac", "#d1615d")


def sheet(height: int, title: str) -> list[str]:
    size = f'width="{WIDTH}" height="{height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect {size} fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{title}</text>',
    ]
