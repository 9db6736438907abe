"""Open pages in Chromium, which runs their scripts with a virtual clock, and read their content afterwards."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update".split()
)

# a question of the page of the lesson to its server
ASKED = {"network": "five_layers", "resolution": 32, "width": 0.5, "schedule": "best", "grid": 0, "stream": False}
ASKED |= {"overhead": 1.0, "ram": 64 << 10, "device": "stm32f746", "optimize": "size"}


def needs_chromium() -> None:
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt install chromium)")


def browse(address: str, folder: Path, milliseconds: int, width: int = 1200) -> str:
    """Return the page after `milliseconds`; its scripts must raise no error.

    folder: for the browser's profile.
    """
    needs_chromium()
    options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", f"--virtual-time-budget={milliseconds}"]
    command = [str(CHROMIUM), *QUIET, *options, "--enable-logging=stderr", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Uncaught" not in done.stderr, done.stderr
    return done.stdout


def print_pdf(address: str, pdf: Path, folder: Path) -> None:
    """Print a page after 2 seconds into the file `pdf`; `folder` is for the browser's profile."""
    needs_chromium()
    options = [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000", f"--print-to-pdf={pdf}"]
    subprocess.run([str(CHROMIUM), *QUIET, *options, address], capture_output=True, timeout=120, check=True)


def screenshot(address: str, picture: Path, folder: Path, width: int, height: int) -> None:
    """Write the top of a page after 3 seconds as a PNG file; `folder` is for the browser's profile."""
    needs_chromium()
    options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", "--virtual-time-budget=3000"]
    command = [str(CHROMIUM), *QUIET, "--hide-scrollbars", *options, f"--screenshot={picture}", address]
    subprocess.run(command, capture_output=True, timeout=120, check=True)


# a window of Chromium has at least 500 pixels, a frame in it may have fewer
FRAME = """<!doctype html><body style="margin:0"><iframe src="page.html" style="border:0;width:{}px;height:900px"></iframe>
<script>
addEventListener("message", ({{ data }}) => {{
  document.body.append(Object.assign(document.createElement("output"), {{ id: "seen", textContent: data }}));
}});
</script></body>"""


def seen_by_script(page: str, script: str, folder: Path, milliseconds: int, width: int) -> dict[str, Any]:
    """Run a script at the end of a page in a frame of `width` pixels, and return what it posts to its parent as JSON."""
    (folder / "page.html").write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    (folder / "frame.html").write_text(FRAME.format(width))
    return seen(browse((folder / "frame.html").as_uri(), folder, milliseconds, max(width, 500)))


def seen_live(page: str, script: str, folder: Path, *flags: str) -> dict[str, Any]:
    """Run a script at the end of a page in real time, with fake devices, and return what it posts to its parent as JSON."""
    needs_chromium()
    found = Queue[bytes]()

    class Handler(SimpleHTTPRequestHandler):
        def do_POST(self) -> None:
            found.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    (folder / "page.html").write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    tell = 'addEventListener("message", ({ data }) => fetch("/", { method: "POST", body: data }));'
    (folder / "live.html").write_text(f'<!doctype html><body><iframe src="page.html"></iframe><script>{tell}</script></body>')
    devices = "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", "--remote-debugging-port=0"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/live.html"
        command = [str(CHROMIUM), *QUIET, f"--user-data-dir={folder / 'live'}", *devices, *flags, address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
            try:
                return dict(json.loads(found.get(timeout=60)))
            except Empty:
                raise AssertionError("the page said nothing within a minute") from None
            finally:
                browser.kill()
                server.shutdown()


def seen(page: str) -> dict[str, Any]:
    """Return the JSON that a script of a test has written into <output id="seen">."""
    (text,) = re.findall(r'<output id="seen">(.*?)</output>', page, re.DOTALL)
    return dict(json.loads(unescape(text)))
