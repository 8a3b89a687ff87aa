"""Prescriptions drawn as scanned forms: invented people, seeded, no font of others.

The page is 1000 x 1400 pixels, so that the boxes of the prescriptions policy (shares of
the page) fall on whole pixels, and a cut here equals the cut at load to the pixel.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAGE: Final = (1000, 1400)
FIELDS: Final = (
    "patient_name",
    "birth_date",
    "zip",
    "gender",
    "doctor",
    "disease",
    "drug",
)
BOXES: Final[Mapping[str, tuple[int, int, int, int]]] = {
    "patient_name": (80, 140, 500, 70),
    "birth_date": (620, 140, 300, 70),
    "zip": (620, 238, 300, 70),
    "gender": (620, 336, 300, 70),
    "doctor": (80, 1204, 500, 70),
    "disease": (80, 476, 840, 84),
    "drug": (80, 644, 840, 140),
}
"""Pixels (x, y, width, height): the layout of the prescriptions policy on our page."""

LABELS: Final = {
    "patient_name": "Patient",
    "birth_date": "Date of birth",
    "zip": "ZIP",
    "gender": "Sex",
    "doctor": "Prescribed by",
    "disease": "Diagnosis",
    "drug": "Rp.",
}
FIRST: Final = (
    "Ada",
    "Ben",
    "Cleo",
    "Dora",
    "Emil",
    "Finn",
    "Greta",
    "Hugo",
    "Ida",
    "Jonas",
    "Klara",
    "Leo",
    "Mina",
    "Nils",
    "Olga",
    "Paul",
    "Rosa",
    "Sami",
    "Tilda",
    "Uwe",
    "Vera",
    "Wim",
    "Yara",
    "Zeno",
)
LAST: Final = (
    "Adler",
    "Berg",
    "Conti",
    "Dahl",
    "Engel",
    "Faber",
    "Gruber",
    "Holm",
    "Iversen",
    "Jansen",
    "Keller",
    "Lund",
    "Moser",
    "Nowak",
    "Olsen",
    "Petit",
    "Quist",
    "Rossi",
    "Sauer",
    "Thoma",
    "Urban",
    "Vogel",
    "Weber",
    "Zeller",
)
DISEASES: Final = {
    "Type 2 diabetes": "Metformin 500 mg",
    "Hypertension": "Lisinopril 10 mg",
    "Asthma": "Salbutamol 100 mcg",
    "Depression": "Sertraline 50 mg",
    "Migraine": "Sumatriptan 50 mg",
    "Hypothyroidism": "Levothyroxine 75 mcg",
    "Gout": "Allopurinol 300 mg",
    "Epilepsy": "Lamotrigine 100 mg",
    "Anaemia": "Ferrous sulfate 200 mg",
    "Osteoporosis": "Alendronate 70 mg",
    "Reflux disease": "Omeprazole 20 mg",
    "Psoriasis": "Methotrexate 7.5 mg",
}


@dataclass(frozen=True)
class Prescription:
    """One invented prescription; ``truth`` is what is written on the form."""

    rx_id: str
    patient_id: str
    truth: Mapping[str, str]


@dataclass(frozen=True)
class WrittenBox:
    """What is written in one box: all that a simulated worker can read there."""

    rx_id: str
    patient_id: str
    field: str
    text: str


def invent(
    count: int, rng: np.random.Generator, *, after: int = 0
) -> tuple[Prescription, ...]:
    """Invent prescriptions, one to three for each patient.

    Parameters
    ----------
    count : int
        How many prescriptions, >= 1.
    rng : numpy.random.Generator
        Same generator state, same prescriptions.
    after : int
        Prescriptions and patients are numbered after this one.
    """
    doctors = [f"Dr. {_pick(rng, FIRST)[0]}. {_pick(rng, LAST)}" for _ in range(12)]
    made: list[Prescription] = []
    patient = after
    while len(made) < count:
        patient += 1
        born = date(1930, 1, 1) + timedelta(days=int(rng.integers(0, 28_000)))
        person = {
            "patient_name": f"{_pick(rng, FIRST)} {_pick(rng, LAST)}",
            "birth_date": born.isoformat(),
            "zip": f"{int(rng.integers(1_000, 99_999)):05d}",
            "gender": _pick(rng, ("F", "M", "X")),
        }
        for _ in range(min(int(rng.integers(1, 4)), count - len(made))):
            disease = _pick(rng, tuple(DISEASES))
            truth = person | {
                "doctor": _pick(rng, doctors),
                "disease": disease,
                "drug": DISEASES[disease],
            }
            number = after + len(made) + 1
            made.append(Prescription(f"rx-{number:04d}", f"p-{patient}", truth))
    return tuple(made)


def draw(prescription: Prescription, rng: np.random.Generator) -> Image.Image:
    """Draw one form as a scanner would bring it: grey, speckled, a little crooked."""
    page = Image.new("L", PAGE, 250)
    pen = ImageDraw.Draw(page)
    title, small = ImageFont.load_default(40), ImageFont.load_default(20)
    pen.text((80, 40), "PRESCRIPTION", font=title, fill=60)
    pen.line((80, 100, 920, 100), fill=90, width=3)
    for name, (x, y, width, height) in BOXES.items():
        pen.text((x, y - 25), LABELS[name], font=small, fill=110)
        pen.rectangle((x, y, x + width - 1, y + height - 1), outline=170)
        ink = Image.new("L", (width - 8, height - 8), 250)
        ImageDraw.Draw(ink).text(
            (10 + int(rng.integers(0, 8)), 8 + int(rng.integers(0, 6))),
            prescription.truth[name],
            font=ImageFont.load_default(34),
            fill=30 + int(rng.integers(0, 40)),
        )
        ink = ink.rotate(float(rng.normal(0, 0.5)), fillcolor=250)
        page.paste(ink, (x + 4, y + 4))
    pixels = np.asarray(page).copy()
    speckles = rng.random(pixels.shape) < 0.002
    pixels[speckles] = rng.integers(90, 230, int(speckles.sum()), dtype=np.uint8)
    return Image.fromarray(pixels)


def digest(picture: Image.Image) -> str:
    """Name a picture by its pixels, whatever its file format."""
    grey = picture.convert("L")
    return hashlib.sha256(repr(grey.size).encode() + grey.tobytes()).hexdigest()


def write_forms(
    prescriptions: tuple[Prescription, ...], folder: Path, rng: np.random.Generator
) -> dict[str, WrittenBox]:
    """Write the scans and the CSV that is loaded, ``prescriptions.csv``.

    Returns
    -------
    dict
        Digest of each crop -> what is written on it. The CSV holds no truth, only keys
        and the paths of the scans.
    """
    scans = folder / "scans"
    scans.mkdir(parents=True, exist_ok=True)
    known: dict[str, WrittenBox] = {}
    with (folder / "prescriptions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("rx_id", "patient_id", "scan"))
        for prescription in prescriptions:
            page = draw(prescription, rng)
            name = f"scans/{prescription.rx_id}.png"
            page.save(folder / name)
            writer.writerow((prescription.rx_id, prescription.patient_id, name))
            for field, (x, y, width, height) in BOXES.items():
                crop = page.crop((x, y, x + width, y + height))
                known[digest(crop)] = WrittenBox(
                    prescription.rx_id,
                    prescription.patient_id,
                    field,
                    prescription.truth[field],
                )
    return known


def write_records(folder: Path, count: int, seed: int) -> dict[str, WrittenBox]:
    """Invent prescriptions and write their forms, and ``truth.csv`` with what they say.

    Returns
    -------
    dict
        As :func:`write_forms` does.
    """
    rng = np.random.default_rng(seed)
    prescriptions = invent(count, rng)
    known = write_forms(prescriptions, folder, rng)
    with (folder / "truth.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("rx_id", *FIELDS))
        for one in prescriptions:
            writer.writerow((one.rx_id, *(one.truth[name] for name in FIELDS)))
    return known


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(0, len(options)))]
