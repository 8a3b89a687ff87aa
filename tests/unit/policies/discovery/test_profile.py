"""What names and values of columns say, in eight languages and without a name."""

import pytest

from policies.discovery.coded_table import TableSampler
from policies.discovery.column_names import meaning_of, names_key, names_person
from policies.discovery.profile import profile
from policies.discovery.value_shapes import shape_of


def coded(columns):
    sampler = TableSampler()
    rows = list(zip(*columns.values(), strict=True))
    sampler.add(list(columns), rows)
    return sampler.finish(list(columns))


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("birth date", "birth_date Geburtsdatum date_de_naissance fecha_nacimiento "
         "data_nascimento geboortedatum data_urodzenia janm_tithi"),
        ("postal code", "ZIP PLZ code_postal código_postal CEP postcode kod_pocztowy pin_code"),
        ("sex", "gender Geschlecht sexe sexo género geslacht płeć ling"),
        ("health", "diagnosis Diagnose maladie enfermedad doença ziekte rozpoznanie bimari"),
        ("surname", "lastName Nachname nom_de_famille apellidos sobrenome achternaam nazwisko upnaam"),
        ("full name", "patient_name Name nom nombre nome naam imię_i_nazwisko pura_naam"),
        ("phone number", "phone Telefonnummer téléphone móvil telemóvel telefoon telefon durbhash"),
        ("e-mail address", "e-mail EMail courriel correo email_address emailadres"),
        ("national id number", "SSN Sozialversicherungsnummer passeport DNI CPF BSN PESEL aadhaar"),
        ("doctor or place of treatment", "doctor Hausarzt médecin médico huisarts lekarz chikitsak"),
    ],
)  # fmt: skip
def test_names_of_columns_are_understood_in_eight_languages(label, names):
    assert {name: meaning_of(name).label for name in names.split()} == dict.fromkeys(
        names.split(), label
    )


def test_a_name_of_something_else_is_no_name_of_a_person():
    for name in ("measure_name", "file_name", "DrugName", "hostname_total"):
        assert meaning_of(name).label != "full name"
    assert meaning_of("hospital_name").label == "name of an organisation"


def test_keys_and_people_are_found_by_their_names():
    assert names_key("rx_id")
    assert names_key("Fallnummer")
    assert names_person("patient_id")
    assert names_person("KundenNr")
    assert not names_person("patient_name")
    for name in ("ownership", "citizenship", "Mitgliedschaft", "Kundengruppe"):
        assert not names_person(name)


def test_an_account_that_many_people_share_says_nothing_of_whose_it_is():
    """Where records say whose they are: else one person's may stand in several rows."""
    cards = [f"K{i % 60}" for i in range(120)]
    names = [["Taz", "Kit", "Bex"][i % 3] for i in range(120)]
    of_members = {
        "id": list(map(str, range(120))),
        "member_no": cards,
        "nickname": names,
    }
    assert not profile(coded(of_members), "id").by_name["nickname"].meaning.direct
    of_nobody = {"id": list(map(str, range(120))), "nickname": names}
    assert profile(coded(of_nobody), "id").by_name["nickname"].meaning.direct


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (["DE89370400440532013000", "FR1420041010050500013M02606"], "IBAN"),
        (["4111111111111111", "5500005555555559"], "CARD"),
        (["44051401359", "02070803628", "92071314764", "80072909146", "90090515836"], "PL_PESEL"),
        (["111.444.777-35", "529.982.247-25", "390.533.447-05", "935.411.347-80", "153.509.460-56"], "BR_CPF"),
        (["12345678Z", "87654321X", "00000000T", "11111111H", "99999999R"], "ES_DNI"),
        (["123-45-6789", "219-09-9999"], "SSN"),
        (["3.5.1961", "14.11.2020"], "DATE"),
        (["3. März 2026", "14. Januar 1961"], "DATE"),
        (["3 de marzo de 2026", "1er août 1961", "3 mars 2026"], "DATE"),
        (["March 3, 2026", "3 maart 2026", "3 marca 2026", "3 Mar 2026"], "DATE"),
        (["3 apples 2026", "14 pears 1961"], ""),
        (["f", "m", "w"], "SEX"),
    ],
)  # fmt: skip
def test_values_have_a_shape_whatever_their_column_is_called(values, shape):
    assert shape_of(coded({"c1": values}).columns[0]).name == shape


def test_nine_digits_at_random_are_no_national_id():
    values = [f"{7919 * i % 900_000_000 + 100_000_000}" for i in range(1, 200)]
    assert shape_of(coded({"c": values}).columns[0]).name == "INTEGER"


def test_values_decide_where_names_say_nothing():
    n = 60
    table = coded(
        {
            "c1": [f"Ann{chr(97 + i % 26)} Lee{i}" for i in range(n)],
            "c2": [f"19{30 + i}-01-02" for i in range(n)],
            "c3": ["m" if i % 2 else "f" for i in range(n)],
            "c4": [f"{10_000 + i % 9}" for i in range(n)],
            "c5": [f"2024-05-{i % 9 + 1:02}" for i in range(n)],
            "c6": [f"a{i}@b.example" for i in range(n)],
            "c7": [f"the patient said so {i} times today" for i in range(n)],
        }
    )
    found = {c.name: c.meaning.label for c in profile(table).columns}
    assert found == {
        "c1": "full name", "c2": "birth date", "c3": "sex", "c4": "postal code",
        "c5": "date", "c6": "e-mail address", "c7": "free text",
    }  # fmt: skip


def test_the_person_is_found_by_what_the_number_tells():
    rows = range(60)
    table = coded(
        {
            "fall_nr": [str(i) for i in rows],
            "nr": [f"n{i // 3}" for i in rows],
            "plz": [f"{10_000 + i // 3 % 7}" for i in rows],
            "geburtsdatum": [f"19{40 + i // 3}-01-01" for i in rows],
            "diagnose": [f"d{i % 5}" for i in rows],
        }
    )
    found = profile(table, "fall_nr")
    assert found.person == "nr"
    assert found.people == 20


def test_what_tells_a_sensitive_column_is_sensitive_too():
    table = coded(
        {
            "id": [str(i) for i in range(60)],
            "disease": [f"d{i % 6}" for i in range(60)],
            "c9": [f"c{i % 6}" for i in range(60)],
        }
    )
    found = profile(table, "id").by_name["c9"]
    assert found.meaning.sensitive
    assert found.meaning.label == "tells disease"


def test_names_inside_free_text_are_found():
    n = 20
    table = coded(
        {
            "patient_name": [f"Xenia{i} Okafor" for i in range(n)],
            "comment": ["Okafor came late and was told to come again"] * 5
            + ["Frau Berg rang up about the bill again"] * 5
            + ["write to a.b@c.example about the bill then"] * 5
            + ["nothing to say about this one at all"] * 5,
        }
    )
    found = {(n.column, n.what): n.share for n in profile(table).names}
    assert found["comment", "names"] == 0.5
    assert found["comment", "e-mail addresses"] == 0.25


@pytest.mark.parametrize("values", [["x"] * 30, [""] * 30])
def test_a_column_of_equal_values_singles_nobody_out(values):
    table = coded({"zip": values, "disease": values})
    found = profile(table)
    assert found.identifying == ()
    assert found.dependencies == ()
