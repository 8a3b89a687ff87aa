"""Tables that `policy suggest` was not tuned on: drawn, with labels written first.

Eleven exports as offices write them, in eight languages, with names of columns that no
list was made from. Labels and generators were committed before `suggest` ever ran on
them. People, places and values are made up; rows are drawn from a seed, so that the same
table comes out everywhere. What the labels mean is said in suggest_labels.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

import numpy as np
from numpy.random import Generator

Columns = dict[str, list[str]]


@dataclass(frozen=True)
class HeldOut:
    """A drawn table and its labels."""

    draw: Callable[[Generator], Columns]
    labels: Mapping[str, Sequence[str]]
    columns: Columns = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.draw(np.random.default_rng(15)))


def _of(
    rng: Generator, values: Sequence[object], n: int, skew: float = 0.0
) -> list[str]:
    """Draw values; the first ones oftener with more skew."""
    weights = 1.0 / np.arange(1, len(values) + 1) ** skew
    return [
        str(values[i]) for i in rng.choice(len(values), n, p=weights / weights.sum())
    ]


def _days(rng: Generator, first: date, days: int, n: int, form: str) -> list[str]:
    drawn = rng.integers(0, days, n)
    return [(first + timedelta(int(d))).strftime(form) for d in drawn]


def _money(rng: Generator, mean: float, n: int, form: str = "{:.2f}") -> list[str]:
    return [form.format(v) for v in rng.lognormal(np.log(mean), 0.5, n)]


def _people(cells: Sequence[str], whose: Sequence[int]) -> list[str]:
    return [cells[i] for i in whose]


def klinik(rng: Generator) -> Columns:
    """A German hospital's cases: some patients come again, and no column numbers them."""
    n, m = 420, 300
    who = np.concatenate([np.arange(m), rng.integers(0, m, n - m)]).tolist()
    given = _of(
        rng,
        [
            "Anneliese",
            "Horst",
            "Sabine",
            "Jürgen",
            "Karin",
            "Uwe",
            "Heike",
            "Björn",
            "Ayşe",
            "Mehmet",
            "Gisela",
            "Ralf",
        ],
        m,
    )
    last = _of(
        rng,
        [
            "Müller",
            "Schäfer",
            "Groß",
            "Weiß",
            "Yılmaz",
            "Krüger",
            "Vogt",
            "Zeidler",
            "Böhm",
            "Hartung",
            "Petersen",
            "Lindner",
            "Öztürk",
            "Jahn",
        ],
        m,
        0.4,
    )
    towns = ["Leipzig", "Markkleeberg", "Borna", "Grimma", "Taucha", "Wurzen"]
    town = rng.integers(0, 6, m)
    sick = rng.integers(0, 9, n)
    return {
        "Fall-Nr.": [f"26{i:06}" for i in range(n)],
        "Pat.-Name": _people([f"{b}, {a}" for a, b in zip(given, last, strict=True)], who),
        "Rufname": _people(given, who),
        "Geb.-Dat.": _people(_days(rng, date(1931, 1, 1), 29_000, m, "%d.%m.%Y"), who),
        "m/w": _people(_of(rng, "mw", m), who),
        "PLZ": _people([f"0{4100 + 90 * int(t) + int(x)}" for t, x in zip(town, rng.integers(0, 9, m), strict=True)], who),
        "Wohnort": _people([towns[t] for t in town], who),
        "Kostenträger": _people(_of(rng, ["AOK PLUS", "Techniker", "Barmer", "Privat", "DAK"], m, 0.8), who),
        "Einweiser": _of(rng, [f"Dr. med. {x}" for x in ("Huber", "Krause", "Lange", "Arndt", "Seidel", "Thiele", "Pohl", "Reuter", "Busch", "Kern", "Noack", "Wolff")], n, 0.5),
        "aufgenommen": _days(rng, date(2026, 1, 2), 180, n, "%d.%m.%Y"),
        "Station": _of(rng, ["2A", "2B", "3C", "ITS", "5 Ost"], n),
        "Hauptdiagnose": [["M10.9", "E11.9", "J45.0", "I10", "F32.1", "C50.9", "K35.8", "N20.0", "B20"][i] for i in sick],
        "OPS": [["8-191", "8-930", "1-620", "3-200", "9-649", "5-870", "5-470", "8-137", "1-930"][i] for i in sick],
        "Dauermedikation": [["Allopurinol", "Metformin", "Salbutamol", "Ramipril", "Sertralin", "Tamoxifen", "", "", "Biktarvy"][i] for i in sick],
        "BMI": [f"{v:.1f}".replace(".", ",") for v in rng.normal(27, 4, n)],
        "Pauschale EUR": _money(rng, 3_400, n),
        "Befundtext": ["o. B., Kontrolle in sechs Wochen empfohlen" if i % 2 else "" for i in range(n)],
    }  # fmt: skip


def sinistres(rng: Generator) -> Columns:
    """Claims of a French motor insurer."""
    n = 380
    given = _of(
        rng,
        ["Camille", "Léa", "Hugo", "Inès", "Jules", "Manon", "Théo", "Aïcha", "Rémi"],
        n,
    )
    last = _of(
        rng,
        [
            "Martin",
            "Lefèvre",
            "Girard",
            "Benali",
            "Rousseau",
            "Fontaine",
            "Mercier",
            "Dupuis",
            "Carpentier",
            "Nguyen",
            "Perrot",
        ],
        n,
    )
    place = rng.integers(0, 12, n)
    towns = [
        "Tours",
        "Blois",
        "Amboise",
        "Chinon",
        "Loches",
        "Vouvray",
        "Langeais",
        "Joué",
        "Bléré",
        "Montbazon",
        "Saché",
        "Azay",
    ]
    return {
        "n° sinistre": [f"S-{2026_0000 + i}" for i in range(n)],
        "assuré": [f"{a} {b.upper()}" for a, b in zip(given, last, strict=True)],
        "né le": _days(rng, date(1938, 5, 1), 25_000, n, "%d/%m/%Y"),
        "cp": [f"37{100 + 10 * int(p)}" for p in place],
        "commune": [towns[p] for p in place],
        "immat.": [f"{chr(65 + i % 23)}{chr(66 + i % 19)}-{100 + 7 * i % 899}-{chr(65 + i % 21)}X" for i in range(n)],
        "survenu le": _days(rng, date(2025, 9, 1), 300, n, "%d/%m/%Y"),
        "garage agréé": _of(rng, ["Garage du Pont", "Auto Loire", "Carrosserie Petit", "Méca 37", "Garage Morin"], n, 0.7),
        "expert": _of(rng, ["M. Blanc", "Mme Roy", "M. Faure", "Mme Colin"], n),
        "nature": _of(rng, ["vol", "bris de glace", "corporel", "matériel", "incendie"], n, 0.8),
        "montant réglé": _money(rng, 1_900, n, "{:.2f}"),
        "bonus-malus": _of(rng, ["0.50", "0.54", "0.60", "0.85", "1.00", "1.25"], n, 0.6),
        "jours d'arrêt": _of(rng, [0, 0, 0, 3, 7, 15, 45], n),
        "taux alcool": _of(rng, ["0", "0", "0", "0.6", "1.1"], n, 1.0),
        "canal": _of(rng, ["web", "agence", "tél"], n),
    }  # fmt: skip


def alumnos(rng: Generator) -> Columns:
    """Pupils of a Spanish school."""
    n = 340
    given = _of(
        rng,
        [
            "Lucía",
            "Hugo",
            "Martina",
            "Pablo",
            "Sofía",
            "Iker",
            "Nerea",
            "Aitana",
            "Omar",
        ],
        n,
    )
    first = _of(
        rng,
        ["García", "Ruiz", "Moreno", "Navarro", "Iglesias", "Peña", "Vidal", "Haddad"],
        n,
    )
    second = _of(
        rng, ["Ortega", "Castro", "Rubio", "Molina", "Serrano", "Cano", "Prieto"], n
    )
    return {
        "expediente": [f"E{i:05}" for i in range(n)],
        "alumno": [f"{a} {b} {c}" for a, b, c in zip(given, first, second, strict=True)],
        "nacido": _days(rng, date(2010, 1, 1), 2_200, n, "%d/%m/%Y"),
        "curso": _of(rng, ["1º ESO", "2º ESO", "3º ESO", "4º ESO"], n),
        "grupo": _of(rng, "ABC", n),
        "tutor": _of(rng, ["Sra. Blanco", "Sr. Marín", "Sra. Crespo", "Sr. Gil", "Sra. Bravo", "Sr. Nieto"], n),
        "barrio": _of(rng, ["Centro", "La Paz", "El Carmen", "Santa Ana", "Las Flores", "San Juan"], n, 0.5),
        "ruta": _of(rng, ["ninguna", "R1", "R2", "R3", "R4"], n, 0.8),
        "correo familia": [f"familia{i}@correo.example" for i in range(n)],
        "contacto": [f"+34 6{10_000_000 + 77_777 * i:08}"[:15] for i in range(n)],
        "beca": _of(rng, ["no", "sí"], n, 1.0),
        "menú": _of(rng, ["normal", "sin cerdo", "sin gluten", "vegetariano"], n, 1.5),
        "nota media": [f"{v:.1f}" for v in rng.uniform(3, 10, n)],
        "faltas": [str(int(v)) for v in rng.poisson(6, n)],
        "parte disciplinario": _of(rng, ["0", "1", "2", "5"], n, 2.0),
        "apoyo": _of(rng, ["", "TDAH", "logopedia", "altas capacidades"], n, 1.5),
        "taquilla": [str(100 + i % 60) for i in range(n)],
    }  # fmt: skip


def customers(rng: Generator) -> Columns:
    """Customers of an English web shop, without surnames and addresses, for a feed."""
    n = 600
    return {
        "cust_ref": [f"C-{9_000 + 3 * i}" for i in range(n)],
        "forename": _of(rng, ["Oliver", "Amelia", "Isla", "George", "Freya", "Noah", "Zainab", "Harriet", "Alfie", "Priya", "Rowan", "Saoirse", "Callum", "Ffion", "Tunde", "Agnieszka"], n, 0.7),
        "postcode": [f"LS{1 + int(a)} {1 + int(b)}AB" for a, b in zip(rng.integers(0, 12, n), rng.integers(0, 9, n), strict=True)],
        "joined": _days(rng, date(2017, 1, 1), 3_000, n, "%Y-%m-%d"),
        "last_order_date": _days(rng, date(2026, 2, 1), 240, n, "%Y-%m-%d"),
        "local_branch": _of(rng, ["Leeds", "Otley", "Ilkley", "Wetherby", "Pudsey"], n),
        "handset": _of(rng, ["iPhone 15", "Galaxy S24", "Pixel 9", "iPhone 13", "Moto G54", "Fairphone 5"], n, 0.6),
        "favourite_category": _of(rng, ["garden", "baby", "wine", "books", "incontinence", "toys", "running", "prayer"], n, 0.4),
        "segment": _of(rng, ["bargain", "loyal", "new parent", "lapsing", "premium"], n, 0.4),
        "opt_in": _of(rng, ["Y", "N"], n),
        "orders_12m": [str(int(v)) for v in rng.poisson(4, n)],
        "lifetime_value": _money(rng, 240, n),
        "churn_risk": _of(rng, ["low", "mid", "high"], n, 0.5),
        "loyalty_tier": _of(rng, ["bronze", "silver", "gold"], n, 0.7),
        "channel": _of(rng, ["app", "web", "phone"], n),
    }  # fmt: skip


def kadry(rng: Generator) -> Columns:
    """Staff of a Polish firm."""
    n = 260
    given = _of(
        rng,
        ["Zofia", "Jan", "Łukasz", "Małgorzata", "Piotr", "Żaneta", "Paweł", "Ewa"],
        n,
    )
    last = _of(
        rng,
        [
            "Kowalczyk",
            "Wójcik",
            "Zając",
            "Król",
            "Dudek",
            "Wrona",
            "Jabłoński",
            "Górska",
            "Pająk",
            "Sikora",
            "Baran",
            "Żak",
        ],
        n,
    )
    since = rng.integers(1998, 2026, n)
    return {
        "nr ewid.": [f"{7_000 + i}" for i in range(n)],
        "pracownik": [f"{a} {b}" for a, b in zip(given, last, strict=True)],
        "rok ur.": [str(int(y)) for y in rng.integers(1960, 2004, n)],
        "miasto": _of(rng, ["Łódź", "Zgierz", "Pabianice", "Ozorków"], n, 0.8),
        "stanowisko": _of(rng, ["szwaczka", "krojczy", "magazynier", "kadrowa", "mechanik", "brygadzista", "księgowa"], n, 0.7),
        "dział": _of(rng, ["produkcja", "magazyn", "biuro", "utrzymanie ruchu"], n, 0.7),
        "zatrudniony od": [f"{int(y)}-{m:02}-01" for y, m in zip(since, rng.integers(1, 13, n), strict=True)],
        "wymiar": _of(rng, ["1/1", "3/4", "1/2"], n, 1.2),
        "płaca zasadnicza": [str(4_300 + 50 * int(v)) for v in rng.integers(0, 120, n)],
        "premia": [str(100 * int(v)) for v in rng.integers(0, 15, n)],
        "dni chorobowe": [str(int(v)) for v in rng.poisson(5, n)],
        "ocena roczna": _of(rng, ["A", "B", "C", "D"], n, 0.6),
        "związek": _of(rng, ["", "Solidarność", "OPZZ"], n, 0.8),
        "rozmiar odzieży": _of(rng, ["S", "M", "L", "XL"], n),
    }  # fmt: skip


def verzuim(rng: Generator) -> Columns:
    """Sick leave of a Dutch employer; several spells a person."""
    n, m = 450, 190
    who = rng.integers(0, m, n).tolist()
    return {
        "meldingsnr": [f"V{i:04}" for i in range(n)],
        "personeelsnr": _people([f"{20_000 + 13 * i}" for i in range(m)], who),
        "roepnaam": _people(_of(rng, ["Daan", "Sanne", "Joost", "Femke", "Mohamed", "Anouk", "Bram", "Lotte", "Youssef", "Marieke", "Sjoerd", "Willemijn"], m, 0.5), who),
        "functie": _people(_of(rng, ["monteur", "planner", "chauffeur", "verkoper", "jurist"], m, 0.8), who),
        "afdeling": _people(_of(rng, ["Noord", "Zuid", "Werkplaats", "Kantoor"], m), who),
        "in dienst": _people(_days(rng, date(1999, 1, 1), 9_000, m, "%d-%m-%Y"), who),
        "postcode": _people([f"{1000 + 40 * int(a)} {chr(65 + int(b))}K" for a, b in zip(rng.integers(0, 20, m), rng.integers(0, 12, m), strict=True)], who),
        "gehuwd": _people(_of(rng, ["ja", "nee"], m), who),
        "uren": _people(_of(rng, [40, 36, 32, 24], m, 0.8), who),
        "ziek vanaf": _days(rng, date(2025, 1, 1), 600, n, "%d-%m-%Y"),
        "bedrijfsarts": _of(rng, ["mw. de Wit", "dhr. Postma", "mw. El Idrissi"], n),
        "reden": _of(rng, ["griep", "rug", "burn-out", "zwangerschap", "operatie", "rouw"], n, 0.5),
        "schaal": _people(_of(rng, [5, 6, 7, 8, 9, 11], m), who),
        "brutoloon": _people([str(2_300 + 10 * int(v)) for v in rng.integers(0, 300, m)], who),
        "parkeerpas": _people(_of(rng, ["ja", "nee"], m), who),
    }  # fmt: skip


def marij(rng: Generator) -> Columns:
    """Patients of a clinic in Rajasthan; Hindi in Latin letters."""
    n = 320
    given = _of(
        rng,
        [
            "Ramesh",
            "Sunita",
            "Geeta",
            "Mohan",
            "Kamla",
            "Imran",
            "Lakshmi",
            "Bhanwar",
            "Savitri",
        ],
        n,
    )
    last = _of(
        rng,
        [
            "Meena",
            "Sharma",
            "Gurjar",
            "Khan",
            "Jat",
            "Prajapat",
            "Saini",
            "Rathore",
            "Bairwa",
        ],
        n,
    )
    father = _of(
        rng,
        [
            "Kishan Lal",
            "Hari Ram",
            "Abdul Khan",
            "Ghanshyam Das",
            "Prem Chand",
            "Bhagwan Singh",
            "Nathu Lal",
            "Suraj Mal",
        ],
        n,
    )
    return {
        "parchi no": [str(i + 1) for i in range(n)],
        "marij ka naam": [f"{a} {b}" for a, b in zip(given, last, strict=True)],
        "pita ka naam": father,
        "umr": [str(int(v)) for v in rng.integers(1, 88, n)],
        "ling": _of(rng, ["purush", "mahila"], n),
        "gaon": _of(rng, ["Bassi", "Jamwa", "Toda", "Phagi", "Dudu", "Chaksu", "Lalsot", "Sambhar"], n, 0.5),
        "sampark": [f"+91 98{29_000_000 + 33_331 * i:08}"[:14] for i in range(n)],
        "aane ki tarikh": _days(rng, date(2026, 4, 1), 120, n, "%d-%m-%Y"),
        "vaidya": _of(rng, ["Dr. Joshi", "Dr. Mathur", "Dr. Bano"], n),
        "bimari": _of(rng, ["bukhar", "madhumeh", "tapedik", "dama", "peeliya", "garbh"], n, 0.4),
        "dava": _of(rng, ["paracetamol", "metformin", "AKT-4", "inhaler", "liv-52", "iron"], n, 0.4),
        "jaanch": _of(rng, ["khoon", "x-ray", "balgam", "sonography", ""], n),
        "shulk": [str(10 * int(v)) for v in rng.integers(0, 30, n)],
        "token": [str(1 + i % 40) for i in range(n)],
    }  # fmt: skip


def expenses(rng: Generator) -> Columns:
    """Scanned receipts that staff hand in; who hands in is named, what for too."""
    n = 300
    staff = [
        "Ngozi Adeyemi",
        "Tom Hale",
        "Rui Tavares",
        "Elin Strand",
        "Aled Pugh",
        "Mina Sato",
    ]
    return {
        "claim": [f"X{i:04}" for i in range(n)],
        "scan": [f"scans/{i:04}.png" for i in range(n)],
        "employee": _of(rng, staff, n),
        "merchant": _of(rng, ["Hilton Metro", "Shell", "Boots", "Trainline", "The Crown", "Pizza Roma", "City Cabs", "WHSmith", "Costa", "St Mary Pharmacy"], n, 0.3),
        "purchased": _days(rng, date(2026, 1, 1), 200, n, "%d/%m/%Y"),
        "till time": [f"{int(h):02}:{int(m):02}" for h, m in zip(rng.integers(7, 23, n), rng.integers(0, 60, n), strict=True)],
        "total": _money(rng, 38, n),
        "vat": _money(rng, 6, n),
        "card ending": _of(rng, ["4417", "0032", "9185", "2270", "6601", "7713", "3348"], n),
        "cost centre": _of(rng, ["410", "415", "520", "610"], n),
        "category": _of(rng, ["travel", "meal", "medical", "stationery", "entertainment"], n, 0.4),
        "approved": _of(rng, ["yes", "no"], n, 1.5),
    }  # fmt: skip


def farmacia(rng: Generator) -> Columns:
    """Prescriptions that a Portuguese pharmacy filled."""
    n, m = 400, 220
    who = rng.integers(0, m, n).tolist()
    given = _of(
        rng, ["Beatriz", "Tiago", "Inês", "Duarte", "Fátima", "Gonçalo", "Lurdes"], m
    )
    last = _of(
        rng,
        [
            "Ferreira",
            "Antunes",
            "Pires",
            "Carvalho",
            "Matos",
            "Teixeira",
            "Simões",
            "Brito",
        ],
        m,
    )
    ill = rng.integers(0, 6, n)
    return {
        "guia": [f"G{i:05}" for i in range(n)],
        "utente": _people([f"{a} {b}" for a, b in zip(given, last, strict=True)], who),
        "nasc.": _people(_days(rng, date(1940, 2, 1), 26_000, m, "%d-%m-%Y"), who),
        "freguesia": _people(_of(rng, ["Arroios", "Benfica", "Estrela", "Lumiar", "Marvila"], m, 0.5), who),
        "prescritor": _of(rng, ["Dra. Lopes", "Dr. Nunes", "Dr. Vaz", "Dra. Reis", "Dr. Melo"], n),
        "aviada em": _days(rng, date(2026, 3, 1), 150, n, "%d-%m-%Y"),
        "balcão": _of(rng, ["1", "2", "3"], n),
        "fármaco": [["losartan", "sertralina", "insulina", "salmeterol", "tenofovir", "ibuprofeno"][i] for i in ill],
        "caixas": _of(rng, [1, 2, 3], n, 1.0),
        "comparticipação": _of(rng, ["0 %", "37 %", "69 %", "90 %"], n),
        "pago": _money(rng, 9, n),
        "isento": _of(rng, ["sim", "não"], n, 1.0),
    }  # fmt: skip


def mieter(rng: Generator) -> Columns:
    """Tenants of a German housing company."""
    n = 360
    given = _of(
        rng, ["Thorsten", "Annegret", "Cem", "Wiebke", "Lothar", "Svetlana", "Jonas"], n
    )
    last = _of(
        rng,
        [
            "Brandt",
            "Kaya",
            "Wegner",
            "Falk",
            "Ivanova",
            "Thomsen",
            "Ritter",
            "Ebert",
            "Schenk",
        ],
        n,
    )
    return {
        "Vertrag": [f"MV-{4000 + i}" for i in range(n)],
        "Hauptmieter": [f"{a} {b}" for a, b in zip(given, last, strict=True)],
        "Objekt": _of(rng, ["Lindenweg 4", "Lindenweg 6", "Am Hafen 12", "Rosenhof 1", "Rosenhof 3", "Nordring 88"], n, 0.3),
        "Etage": _of(rng, ["EG", "1. OG", "2. OG", "3. OG", "DG"], n),
        "Einzug": _days(rng, date(1994, 1, 1), 11_000, n, "%d.%m.%Y"),
        "Köpfe": _of(rng, [1, 2, 3, 4, 5], n, 0.6),
        "Haustier": _of(rng, ["", "Hund", "Katze"], n, 1.2),
        "Kaltmiete": _money(rng, 620, n),
        "Rückstand": _of(rng, ["0", "0", "0", "310", "620", "1240"], n, 0.5),
        "Sozialleistung": _of(rng, ["", "Wohngeld", "Bürgergeld", "Grundsicherung"], n, 1.0),
        "Mahnstufe": _of(rng, [0, 0, 1, 2, 3], n, 0.5),
        "Schlüssel": _of(rng, [2, 3, 4], n),
    }  # fmt: skip


def gym(rng: Generator) -> Columns:
    """Visits to an English gym; the membership card numbers people."""
    n, m = 500, 160
    who = rng.integers(0, m, n).tolist()
    return {
        "swipe": [str(70_000 + i) for i in range(n)],
        "card_no": _people([f"K{300 + 7 * i}" for i in range(m)], who),
        "nickname": _people(_of(rng, ["Taz", "Jools", "Big Dave", "Minnie", "Kit", "Ollie", "Shaz", "Bex", "Gaz", "Flo"], m, 0.4), who),
        "age_band": _people(_of(rng, ["16-24", "25-39", "40-59", "60+"], m), who),
        "outward_code": _people(_of(rng, ["M1", "M4", "M14", "M20", "M21", "SK3"], m), who),
        "plan": _people(_of(rng, ["anytime", "off-peak", "student"], m, 0.7), who),
        "entered_at": [f"{d} {int(h):02}:{int(q):02}" for d, h, q in zip(_days(rng, date(2026, 6, 1), 60, n, "%Y-%m-%d"), rng.integers(6, 22, n), rng.integers(0, 60, n), strict=True)],
        "trainer": _people(_of(rng, ["Lee", "Anya", "none", "Marcus"], m), who),
        "weight_kg": _people([f"{v:.1f}" for v in rng.normal(78, 14, m)], who),
        "resting_pulse": _people([str(int(v)) for v in rng.normal(66, 8, m)], who),
        "injury": _people(_of(rng, ["", "knee", "back", "shoulder"], m, 1.0), who),
        "arrears": _people(_of(rng, ["0", "0", "25", "50"], m), who),
        "locker": _of(rng, range(1, 90), n),
    }  # fmt: skip


HELD_OUT: Final[Mapping[str, HeldOut]] = {
    "klinik (German)": HeldOut(
        klinik,
        {
            "person": ["Pat.-Name", "Geb.-Dat."],
            "direct": ["Pat.-Name"],
            "quasi": ["Rufname", "Geb.-Dat.", "m/w", "PLZ", "Wohnort", "Kostenträger", "Einweiser", "aufgenommen", "Station"],
            "sensitive": ["Hauptdiagnose", "OPS", "Dauermedikation", "BMI", "Pauschale EUR"],
        },
    ),
    "sinistres (French)": HeldOut(
        sinistres,
        {
            "direct": ["assuré", "immat."],
            "quasi": ["né le", "cp", "commune", "survenu le", "garage agréé", "expert"],
            "sensitive": ["nature", "montant réglé", "bonus-malus", "jours d'arrêt", "taux alcool"],
        },
    ),
    "alumnos (Spanish)": HeldOut(
        alumnos,
        {
            "direct": ["alumno", "correo familia", "contacto"],
            "quasi": ["nacido", "curso", "grupo", "tutor", "barrio", "ruta", "taquilla"],
            "sensitive": ["beca", "menú", "nota media", "faltas", "parte disciplinario", "apoyo"],
        },
    ),
    "customers (English)": HeldOut(
        customers,
        {
            "quasi": ["forename", "postcode", "joined", "last_order_date", "local_branch", "handset"],
            "sensitive": ["favourite_category", "segment", "opt_in", "orders_12m", "lifetime_value", "churn_risk", "loyalty_tier"],
        },
    ),
    "kadry (Polish)": HeldOut(
        kadry,
        {
            "direct": ["pracownik"],
            "quasi": ["rok ur.", "miasto", "stanowisko", "dział", "zatrudniony od", "wymiar"],
            "sensitive": ["płaca zasadnicza", "premia", "dni chorobowe", "ocena roczna", "związek"],
        },
    ),
    "verzuim (Dutch)": HeldOut(
        verzuim,
        {
            "person": ["personeelsnr"],
            "quasi": ["roepnaam", "functie", "afdeling", "in dienst", "postcode", "gehuwd", "uren", "ziek vanaf", "bedrijfsarts"],
            "sensitive": ["reden", "schaal", "brutoloon"],
        },
    ),
    "marij (Hindi)": HeldOut(
        marij,
        {
            "direct": ["marij ka naam", "pita ka naam", "sampark"],
            "quasi": ["umr", "ling", "gaon", "aane ki tarikh", "vaidya"],
            "sensitive": ["bimari", "dava", "jaanch", "shulk"],
        },
    ),
    "expenses (English)": HeldOut(
        expenses,
        {
            "direct": ["employee"],
            "quasi": ["merchant", "purchased", "till time", "card ending", "cost centre"],
            "sensitive": ["total", "vat", "category"],
        },
    ),
    "farmacia (Portuguese)": HeldOut(
        farmacia,
        {
            "person": ["utente", "nasc."],
            "direct": ["utente"],
            "quasi": ["nasc.", "freguesia", "prescritor", "aviada em"],
            "sensitive": ["fármaco", "caixas", "comparticipação", "pago", "isento"],
        },
    ),
    "mieter (German)": HeldOut(
        mieter,
        {
            "direct": ["Hauptmieter"],
            "quasi": ["Objekt", "Etage", "Einzug", "Köpfe", "Haustier"],
            "sensitive": ["Kaltmiete", "Rückstand", "Sozialleistung", "Mahnstufe"],
        },
    ),
    "gym (English)": HeldOut(
        gym,
        {
            "person": ["card_no"],
            "quasi": ["nickname", "age_band", "outward_code", "plan", "entered_at", "trainer"],
            "sensitive": ["weight_kg", "resting_pulse", "injury", "arrears"],
        },
    ),
}  # fmt: skip
