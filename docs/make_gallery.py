"""Takes pictures of docs/gallery.md: `python docs/make_gallery.py [NAME ...]`.

Each example of the gallery is copied, mapped where that says more, and run. Of the page that `flowc
report` writes about it, Chromium, which has to be there, takes the graph and the firings as
`docs/gallery/NAME.png`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

DOCS = Path(__file__).resolve().parent
#: Options of `report` for each example: how long it runs, and on which platform.
EXAMPLES = {
    "digits": ["--run", "200"],
    "spotter": ["--run", "50"],
    "robot": ["--run", "90"],
    "tracker": ["--run", "30", "--platform", "robot"],
    "drone": ["--run", "100"],
}
#: Those that are mapped before, and the options.
MAPPED = {"digits": [], "tracker": ["--platform", "robot"]}
#: The largest picture; what is empty below is cut off.
SIZE = (1100, 900)
#: What a picture shows of a page, whose policy would not allow another style.
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
STYLE = "<style>#nav, main > section:not(#graph, #gantt) { display: none }</style></head>"
#: Seconds for a verb, and for the picture.
LIMIT = 300.0


def take(name: str, folder: Path) -> None:
    """The picture of an example. Raises CalledProcessError, TimeoutExpired."""
    place = folder / name
    shutil.copytree(DOCS.parent / "examples" / name, place)

    def run(*command: str) -> None:
        subprocess.run(command, cwd=place, check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)

    flowc = (sys.executable, "-m", "flowc")
    if name in MAPPED:
        run(*flowc, "map", f"{name}.flow", "--budget", "20s", *MAPPED[name])
    run(*flowc, "report", f"{name}.flow", *EXAMPLES[name], "-o", "page.html")
    page = place / "page.html"
    page.write_text(POLICY.sub("", page.read_text(), count=1).replace("</head>", STYLE, 1))
    run(
        "chromium",
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--window-size={SIZE[0]},{SIZE[1]}",
        "--screenshot=page.png",
        "--virtual-time-budget=3000",
        page.as_uri(),
    )
    target = DOCS / "gallery" / f"{name}.png"
    target.parent.mkdir(exist_ok=True)
    taken = Image.open(place / "page.png").convert("RGB")
    ground = Image.new("RGB", taken.size, taken.getpixel((0, 0)))
    _, _, _, bottom = ImageChops.difference(taken, ground).getbbox()
    # 128 colors are enough for a page, and a quarter of the bytes
    taken.crop((0, 0, SIZE[0], min(bottom + 16, SIZE[1]))).quantize(128).save(target, optimize=True)


def main() -> None:
    """The pictures of the named examples, or of all."""
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or EXAMPLES:
            take(name, Path(folder))


if __name__ == "__main__":
    main()
