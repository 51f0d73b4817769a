"""Three networks that read pages, as many lines as there are: a generated program against the
package that they come from.

`rapidocr-onnxruntime` finds the lines of a page, turns those that stand on their head, and reads
them in batches of up to six, padded to the widest of each batch. The text here has its three
networks, with types that vary: pages and lines have their sizes, batches up to six lines. Before
and behind the networks stand the package's own functions.

    flowc on two cores     the first two networks on one core, and the last one on the other
    a pool of two engines  the package with one thread for each, in two threads that share the pages

Both read the same pages, lines of English words in several sizes, and have read one before they are
measured. The texts that they read have to be equal.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from flowc.machines.whoami import cores
from paired import Others, Spread, alternate, execute, flowc, machine, ratio, rounds, table, verdict

PAGES, FRAMES = 24, 48
LEAST = 0.95
TEXT = """
const LINES = 48
const SIDE  = 1792  // pixels of a page for the first network
const WIDE  = 1600  // pixels of a line for the last one, which is 48 high
type Image = uint8[up to 1024, up to 1024, 3]
type Page  = float32[1, 3, up to SIDE, up to SIDE]
type Small = float32[up to 6, 3, 48, 192]
type Lines = float32[up to 6, 3, 48, up to WIDE]
type Marks = float32[up to 6, up to WIDE / 8, 6625]

task Camera { out image: Image   live   python "tasks.py:Camera" }
task Shrink { in image: Image   out page: Page   python "tasks.py:shrink" }
network Find from "det.onnx" { in page: Page from "x" }
task Cut {
    in image: Image   in lit: float32[1, 1, up to SIDE, up to SIDE]
    out crop: Image rate up to LINES   out small: Small rate up to LINES / 6
    stateless   python "tasks.py:Cut"
}
network Turn from "cls.onnx" { in small: Small from "x"   out turned: float32[up to 6, 2] }
task Pad {
    in crop: Image rate up to LINES   in turned: float32[up to 6, 2] rate up to LINES / 6
    out lines: Lines rate up to LINES / 6   out place: int32 rate up to LINES
    python "tasks.py:pad"
}
network Read from "rec.onnx" { in lines: Lines from "x"   out marks: Marks }
task Write {
    in marks: Marks rate up to LINES / 6   in place: int32 rate up to LINES
    python "tasks.py:Write"
}
app Ocr {
    camera: Camera   shrink: Shrink   find: Find   cut: Cut   turn: Turn   pad: Pad   read: Read
    write: Write
    camera -> shrink -> find -> cut.lit   camera -> cut.image
    cut.small -> turn -> pad.turned   cut.crop -> pad.crop
    pad.lines -> read -> write.marks   pad.place -> write.place
}
mapping on host {
    Ocr.camera -> cpu[0]   Ocr.shrink -> cpu[0]   Ocr.find -> cpu[0]   Ocr.cut -> cpu[0]
    Ocr.turn -> cpu[0]   Ocr.pad -> cpu[0]
    Ocr.read -> cpu[1] buffers 8   Ocr.write -> cpu[1]
}
"""
IMAGES = f'''"""Pages with some lines of words."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WORDS = """the of and to in that was his with for had not are but from have they which one were
been has their said would there what will when who more some them then about into time only could
new other than first people over such made two may these after any man our like must through years
where most should before own good""".split()


def images():
    rng = np.random.default_rng(1)
    made = []
    for _ in range({PAGES}):
        height, width = int(rng.integers(300, 560)), int(rng.integers(480, 720))
        image = Image.new("RGB", (width, height), (255, 255, 255))
        draw, top = ImageDraw.Draw(image), 20
        while top < height - 50 and rng.random() < 0.93:
            size = int(rng.integers(16, 30))
            font = ImageFont.load_default(size)
            text = " ".join(rng.choice(WORDS, rng.integers(1, 7)))
            while draw.textlength(text, font=font) > width - 50:
                text = text.rpartition(" ")[0]
            draw.text((int(rng.integers(10, 30)), top), text, (0, 0, 0), font=font)
            top += size + int(rng.integers(14, 40))
        made.append(np.asarray(image)[:, :, ::-1].copy())
    return made
'''
TASKS = f'''"""What the package does before and behind its networks."""

import json

import cv2
import numpy as np
import onnxruntime
from images import images
from rapidocr_onnxruntime import RapidOCR
from rapidocr_onnxruntime.ch_ppocr_cls import TextClassifier
from rapidocr_onnxruntime.ch_ppocr_det import TextDetector
from rapidocr_onnxruntime.ch_ppocr_det.utils import DBPostProcess, DetPreProcess
from rapidocr_onnxruntime.ch_ppocr_rec import TextRecognizer
from rapidocr_onnxruntime.ch_ppocr_rec.utils import CTCLabelDecode

cv2.setNumThreads(1)
# Without their networks: only their functions are wanted.
reader, turner = TextRecognizer.__new__(TextRecognizer), TextClassifier.__new__(TextClassifier)
reader.rec_image_shape, turner.cls_image_shape = [3, 48, 320], [3, 48, 192]
shrunk = DetPreProcess(736, "min", [0.5] * 3, [0.5] * 3)


def shrink(image):
    return shrunk(image)


class Camera:
    def __init__(self):
        self.images, self.n = images(), -1

    def __call__(self):
        self.n += 1
        return self.images[self.n % len(self.images)]


class Cut:
    def __init__(self):
        self.boxes = DBPostProcess(0.3, 0.5, 1000, 1.6, "fast", True)
        self.finder, self.whole = TextDetector.__new__(TextDetector), RapidOCR.__new__(RapidOCR)

    def __call__(self, image, lit):
        shape = image.shape[:2]
        boxes = self.finder.filter_tag_det_res(self.boxes(lit, shape)[0], shape)
        if not len(boxes):
            return [], []
        crops = self.whole.get_crop_img_list(image, self.whole.sorted_boxes(boxes))
        crops = [np.ascontiguousarray(crop) for crop in crops]
        small = [np.stack([turner.resize_norm_img(crops[i]) for i in six]) for six in sixes(crops)]
        return crops, small


def sixes(crops):
    """Lines that are read together: the narrowest first."""
    order = np.argsort(np.array([crop.shape[1] / crop.shape[0] for crop in crops]))
    return [order[i : i + 6] for i in range(0, len(order), 6)]


def pad(crop, turned):
    crops = list(crop)
    for six, scores in zip(sixes(crops), turned):
        for i, score in zip(six, scores):
            if score[1] > 0.9:
                crops[i] = cv2.rotate(crops[i], 1)
    order, lines = sixes(crops), []
    for six in order:
        widest = max([320 / 48] + [crops[i].shape[1] / crops[i].shape[0] for i in six])
        lines.append(np.stack([reader.resize_norm_img(crops[i], widest) for i in six]))
    return lines, np.concatenate([*order, np.zeros(0)]).astype(np.int32)


class Write:
    def __init__(self):
        session = onnxruntime.InferenceSession("rec.onnx")
        letters = session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self.decode, self.texts = CTCLabelDecode(character=letters), []

    def __call__(self, marks, place):
        texts = [None] * len(place)
        read = []
        for six in marks:
            read += self.decode(six, False, wh_ratio_list=[1] * len(six), max_wh_ratio=1)
        for i, (text, score, *_) in zip(place, read):
            texts[i] = text if score >= 0.5 else None
        self.texts.append([text for text in texts if text is not None])

    def close(self):
        with open("flowc.json", "w") as file:
            json.dump(self.texts[:{PAGES}], file)
'''
POOL = f'''"""Engines of the package, in a thread each."""

import json
import threading
import time

import cv2
from images import images
from rapidocr_onnxruntime import RapidOCR

cv2.setNumThreads(1)
pages = images()
engines = [RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1) for _ in range(2)]
for engine in engines:
    engine(pages[0])
texts, numbers, turn = [None] * {FRAMES}, iter(range({FRAMES})), threading.Lock()


def work(engine):
    while True:
        with turn:
            number = next(numbers, None)
        if number is None:
            return
        found, _ = engine(pages[number % {PAGES}])
        texts[number] = [text for _, text, _ in found or ()]


threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
begin = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print({FRAMES} / (time.perf_counter() - begin))
with open("pool.json", "w") as file:
    json.dump(texts[:{PAGES}], file)
'''
NETWORKS = {
    "det": "ch_PP-OCRv4_det_infer.onnx",
    "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "rec": "ch_PP-OCRv4_rec_infer.onnx",
}


def build(folder: Path) -> None:
    """Write both sides; build the program."""
    package = find_spec("rapidocr_onnxruntime")
    if package is None or package.origin is None:
        raise SystemExit("this benchmark needs `pip install rapidocr-onnxruntime`")
    for name, file in NETWORKS.items():
        shutil.copy(Path(package.origin).parent / "models" / file, folder / f"{name}.onnx")
    texts = {"ocr.flow": TEXT, "images.py": IMAGES, "tasks.py": TASKS, "pool.py": POOL}
    for name, text in texts.items():
        (folder / name).write_text(text)
    flowc("build", folder / "ocr.flow", "--no-measure", "-o", folder / "program")


def program(folder: Path) -> Callable[[], float]:
    """Pages in a second, from the first to the last that is read."""

    def run() -> float:
        main, report = folder / "program" / "main.py", folder / "report.json"
        command = (sys.executable, main, "--frames", str(FRAMES), "--quiet", "--report", report)
        execute(*command, cwd=folder)
        return float(json.loads(report.read_text())["apps"]["Ocr"]["fps"])

    return run


def pool(folder: Path) -> Callable[[], float]:
    """The same of the package."""
    return lambda: float(execute(sys.executable, folder / "pool.py", cwd=folder))


def main() -> None:
    """Build, alternate, compare, print."""
    count = rounds(__doc__, 5)
    others = Others()
    if cores() < 2:
        raise SystemExit("this benchmark needs two cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        sides = {"flowc on two cores": program(folder), "a pool of two engines": pool(folder)}
        samples = alternate(sides, count)
        mine, theirs = (
            json.loads((folder / f"{side}.json").read_text()) for side in ("flowc", "pool")
        )
    equal = sum(a == b for a, b in zip(mine, theirs, strict=True))
    print(f"{machine()}; {others.text()}")
    print(f"{count} rounds; pages in a second: median [quartiles] least..most\n")
    print(table([["", "pages/s"], *([s, Spread.of(v).text()] for s, v in samples.items())]))
    more = ratio(*samples.values())
    print(f"\nflowc over the pool: {more.text()}, {verdict(more.median, least=LEAST)}")
    print(f"equal texts: {equal} of {len(mine)} pages, {sum(map(len, theirs))} lines")


if __name__ == "__main__":
    main()
