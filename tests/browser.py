"""Renders a page in a headless Chromium."""

import html
import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="waits for a Chromium on the path")

# The page is in a frame, since Chromium makes no window narrower than 500 pixels.
_LOOK = """<iframe id="page" style="border:0;width:%dpx;height:8000px"></iframe>
<pre id="seen"></pre>
<script>
const page = document.getElementById("page");
page.onload = () => {
  const inside = page.contentDocument, root = inside.documentElement;
  const box = (element) => element.getBoundingClientRect();
  const seen = {
    overflow: root.scrollWidth - root.clientWidth,
    text: inside.body.innerText,
    figures: [...inside.querySelectorAll("figure")].map((figure) => ({
      label: figure.getAttribute("aria-label"),
      width: box(figure).width,
      svg: box(figure.querySelector("svg")).height,
      marks: [...figure.querySelectorAll("path, use")].filter(
        (mark) => box(mark).width + box(mark).height > 0).length,
      words: [...figure.querySelectorAll("text")].map((text) => text.textContent),
      letter: Math.min(...[...figure.querySelectorAll("text")].map((text) => box(text).height)),
    })),
  };
  document.getElementById("seen").textContent = JSON.stringify(seen);
};
page.srcdoc = %s;
</script>"""


def look(text, folder, width):
    """Renders a page in Chromium at a width in pixels.

    Returns: its text, overflow and figures, and the messages of the console.
    """
    quoted = json.dumps(text).replace("</", "<\\/")
    (folder / "look.html").write_text(_LOOK % (width, quoted), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"]
    command += ["--window-size=1400,9000", "--dump-dom", (folder / "look.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    (match,) = re.findall('<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    result = json.loads(html.unescape(match))
    return {**result, "console": re.findall(r".*CONSOLE.*", done.stderr)}
