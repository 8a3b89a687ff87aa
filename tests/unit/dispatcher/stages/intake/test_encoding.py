"""The encoding is found, said, and can be overruled."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.encoding import MAX_LINE, Encoding, Lines, find_encoding
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options

JAPANESE = (
    "名前,都市\n" + "山田太郎,東京\nすずき はなこ,おおさか\nコンピュータ,カタカナ\n" * 3
)
CHINESE = "姓名,城市\n" + "張小明,臺北市信義區\n王大華,高雄市左營區\n" * 4
KOREAN = "이름,도시\n" + "김철수,서울특별시\n이영희,부산광역시\n" * 4
FRENCH = "nom,ville\n" + "Hélène Lefèvre,Orléans\nFrançois Noël,Besançon\n" * 4


@pytest.mark.parametrize(
    ("codec", "text", "name"),
    [
        ("shift_jis", JAPANESE, "shift_jis"),
        ("euc_jp", JAPANESE, "euc_jp"),
        ("big5", CHINESE, "big5"),
        ("euc_kr", KOREAN, "euc_kr"),
    ],
)
def test_legacy_encodings_are_guessed_and_said_to_be_guessed(codec, text, name):
    with open_table(io.BytesIO(text.encode(codec)), name="a.csv") as table:
        read = [tuple(row) for batch in table.batches for row in batch.rows]
    assert table.facts.encoding == name
    assert "guessed" in table.facts.encoding_reason
    assert read == [tuple(line.split(",")) for line in text.splitlines()[1:]]


def read_as(text, codec):
    """The encoding that is found for a file of one column, and its cells."""
    data = f"id,text\r\n1,{text}\r\n".encode(codec)
    with open_table(io.BytesIO(data), name="a.csv") as table:
        read = [row[1] for batch in table.batches for row in batch.rows]
    return table.facts.encoding, read


@pytest.mark.parametrize(
    "text",
    [
        "it’s fine",
        "£5",
        "5 €",
        "“quoted” – and • so on…",
        "12.50£",
        "Zoë",
        "café",
        "Ångström",
        "São João",
        "ÉCOLE",
        "12 °C",
        "m²",
        "¿Qué?",
        "à",
    ],
)
@pytest.mark.parametrize("rows", [1, 300])
def test_western_text_is_read_right_from_one_sign_and_from_many(text, rows):
    data = ("id,text\n" + f"1,{text}\n" * rows).encode("cp1252")
    with open_table(io.BytesIO(data), name="a.csv") as table:
        read = {row[1] for batch in table.batches for row in batch.rows}
    assert (table.facts.encoding, read) == ("cp1252", {text})
    assert "check, or use --encoding" in table.facts.encoding_reason


@pytest.mark.parametrize("codec", ["cp1252", "latin-1"])
def test_french_is_read_as_it_was_written(codec):
    with open_table(io.BytesIO(FRENCH.encode(codec)), name="a.csv") as table:
        read = [tuple(row) for batch in table.batches for row in batch.rows]
    assert table.facts.encoding == "cp1252"
    assert read == [tuple(line.split(",")) for line in FRENCH.splitlines()[1:]]


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1250", "Dvořák; Šimek; Růžička"),
        ("cp1250", "Łódź"),
        ("cp1250", "Wałęsa"),
        ("cp1250", "Szőke Győr, Kovács Ödön"),
        ("cp1254", "Muğla; Yıldız; Güneş"),
        ("cp1257", "Jānis Bērziņš; Ģirts"),
        ("cp1257", "Šiauliai; Kęstutis Vaičiūnas"),
        ("cp1257", "Šmidt; Võru"),
        ("cp1252", "Jürgen Ísafjörður"),
        ("iso8859_15", "Œuvre; Hélène"),
    ],
)
def test_letters_of_other_latin_alphabets_are_told_by_their_neighbours(codec, text):
    assert read_as(f'"{text}"', codec) == (codec, [text])


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("shift_jis", "痴"),
        ("shift_jis", "山田太郎"),
        ("euc_jp", "東京"),
        ("big5", "王大華"),
        ("gb18030", "王大华"),
        ("euc_kr", "김철수"),
        ("cp1251", "Иванов"),
        ("koi8_r", "Москва"),
        ("cp1255", "ירושלים"),
        ("cp1256", "القاهرة"),
        ("mac_roman", "André"),
    ],
)
def test_too_few_bytes_of_another_script_are_asked_about_never_guessed(codec, text):
    with pytest.raises(Invalid, match="is uncertain") as caught:
        read_as(text, codec)
    assert "--encoding" in caught.value.fix
    assert codec in caught.value.why
    assert len(text) <= 2 or text not in caught.value.why


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp850", "Åsa Öberg; Malmö; Växjö"),
        ("mac_roman", "João Gonçalves; São Paulo"),
        ("cp852", "Győző Szűcs; Pécs; Üllő"),
        ("iso8859_3", "Işıl Güneş; İstanbul"),
        ("mac_cyrillic", "Иван Сидоров; Москва; Пётр Ёлкин"),
    ],
)
def test_many_bytes_that_no_script_has_so_are_asked_about(codec, text):
    with pytest.raises(Invalid, match="is uncertain"):
        read_as("; ".join([text] * 20), codec)


@pytest.mark.parametrize("codec", ["cp1253", "iso8859_7"])
def test_greek_is_told_by_its_accented_capitals(codec):
    text = "Άννα Παπαδοπούλου; Αθήνα; Θεσσαλονίκη; " * 5
    assert read_as(text, codec) == (codec, [text])


@pytest.mark.parametrize(
    ("codec", "text", "name"),
    [
        ("iso2022_jp", "山田太郎", "iso2022_jp_2"),
        ("iso2022_kr", "김철수", "iso2022_kr"),
    ],
)
def test_text_of_seven_bits_that_switches_alphabets_is_read(codec, text, name):
    assert read_as(text, codec) == (name, [text])


@pytest.mark.parametrize(
    "codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_unicode_is_found_with_and_without_a_mark(codec):
    text = "id,name\n1,Zoë\n2,Ann\n3,漢字\n"
    with open_table(io.BytesIO(text.encode(codec)), name="a.csv") as table:
        read = [tuple(row) for batch in table.batches for row in batch.rows]
    assert table.columns == ("id", "name")
    assert read == [("1", "Zoë"), ("2", "Ann"), ("3", "漢字")]


def test_big_endian_marks_are_obeyed():
    data = b"\xfe\xff" + "a,b\n1,2\n".encode("utf-16-be")
    found = find_encoding(data, whole=True)
    assert (found.codec, found.skip, found.reason) == (
        "utf-16-be",
        2,
        "byte order mark",
    )


def test_mostly_utf8_is_utf8_with_bad_rows_not_latin1():
    data = ("é,ü\n" * 50).encode() + b"a,\xff\n"
    assert find_encoding(data, whole=True).codec == "utf-8"


def test_the_operators_word_holds():
    with open_table(
        io.BytesIO("a,b\n1,é\n".encode("cp437")), Options(encoding="cp437")
    ) as table:
        assert [row for batch in table.batches for row in batch.rows] == [["1", "é"]]
    assert table.facts.encoding_reason == "as you say"


@pytest.mark.parametrize("told", ["utf-9", "base64", "rot13"])
def test_what_is_no_text_encoding_is_refused(told):
    with pytest.raises(Invalid, match="no encoding"):
        find_encoding(b"a,b\n", whole=True, named=told)


def test_binary_is_no_text():
    with pytest.raises(Invalid, match="no text"):
        find_encoding(bytes(range(256)) * 8, whole=True)


def test_a_character_cut_by_the_end_of_the_sample_is_no_fault():
    data = "a,é".encode()[:-1]
    assert find_encoding(data, whole=False).reason == "valid UTF-8"


UTF8 = Encoding("utf-8", 0, "test")


def lines_of(blocks, encoding=UTF8):
    lines = Lines(iter(blocks), encoding)
    out = []
    for line in lines:
        lines.held.clear()
        out.append(line)
    assert lines.ended
    assert lines.number == len(out)
    return out


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(st.sampled_from("ab\r\n\u2028é漢\x0b"), max_size=40),
    cut=st.integers(1, 6),
    codec=st.sampled_from(["utf-8", "utf-16-le", "shift_jis"]),
)
def test_where_the_blocks_are_cut_does_not_matter(text, cut, codec):
    if codec == "shift_jis":
        text = text.replace("é", "e").replace("\u2028", "あ")
    data = text.encode(codec)
    blocks = [data[i : i + cut] for i in range(0, len(data), cut)]
    expected = io.StringIO(text, newline="").readlines()
    assert lines_of(blocks, Encoding(codec, 0, "test")) == expected


def test_suspicion_covers_the_lines_with_bad_bytes():
    lines = Lines(iter([b"a\nb\n", b"c\n\0\n", b"e\nf\n"]), UTF8)
    suspect = []
    for line in lines:
        lines.held.clear()
        if lines.number <= lines.suspect_until:
            suspect.append(line)
    assert "\0\n" in suspect
    assert "f\n" not in suspect


def test_a_line_without_end_is_refused_before_memory_is_full():
    block = b"x" * (1 << 20)
    with pytest.raises(Invalid, match="line that begins on line 2"):
        lines_of([b"a\n", *[block] * ((MAX_LINE >> 20) + 2)])
