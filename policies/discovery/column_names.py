"""What the name of a column says about it, in eight languages.

English, German, French, Spanish, Portuguese, Dutch, Polish, and Hindi in Latin letters.
Names are compared without case, accents and separators: ``Geburtsdatum``, ``GEBURTS_DATUM``
and ``geburts datum`` are one name.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Meaning:
    """What a column is about.

    Attributes
    ----------
    label : str
        In words, for reasons.
    direct : bool
        Says alone who somebody is.
    quasi : bool
        Is known of people, and says together with others who somebody is.
    sensitive : bool
        Tells something about people that strangers should not know.
    """

    label: str
    direct: bool = False
    quasi: bool = False
    sensitive: bool = False


NATIONAL_ID: Final = Meaning("national id number", direct=True)
EMAIL: Final = Meaning("e-mail address", direct=True)
PHONE: Final = Meaning("phone number", direct=True)
BANK_ACCOUNT: Final = Meaning("bank account", direct=True)
CARD: Final = Meaning("card number", direct=True)
ACCOUNT: Final = Meaning("user account", direct=True)
DEVICE: Final = Meaning("device or network address", direct=True)
FULL_NAME: Final = Meaning("full name", direct=True)
GIVEN_NAME: Final = Meaning("given name", quasi=True)
SURNAME: Final = Meaning("surname", direct=True, quasi=True)
ORGANISATION: Final = Meaning("name of an organisation", quasi=True)
BIRTH_DATE: Final = Meaning("birth date", quasi=True)
SEX: Final = Meaning("sex", quasi=True)
POSTAL_CODE: Final = Meaning("postal code", quasi=True)
DATE: Final = Meaning("date", quasi=True)
COORDINATE: Final = Meaning("coordinate", quasi=True)
FREE_TEXT: Final = Meaning("free text", sensitive=True)
CONSENT: Final = Meaning("consent", sensitive=True)
PLAIN: Final = Meaning("")

SOME_NAME: Final = Meaning("name of somebody or something")
PLACE: Final = Meaning("place of living", quasi=True)
REGION: Final = Meaning("region", quasi=True)
AGE: Final = Meaning("age", quasi=True)
COUNTRY: Final = Meaning("nationality", quasi=True)
LANGUAGE: Final = Meaning("language", quasi=True)
EDUCATION: Final = Meaning("education", quasi=True)
OCCUPATION: Final = Meaning("occupation", quasi=True)
VISITED: Final = Meaning("place visited", quasi=True, sensitive=True)
WORKING_HOURS: Final = Meaning("working hours", quasi=True)
YEAR: Final = Meaning("year", quasi=True)
ADDRESS: Final = Meaning("address", quasi=True)

_MEANINGS: Final[tuple[tuple[Meaning, str], ...]] = (
    # Direct identifiers.
    (
        NATIONAL_ID,
        r"\bssn\b|\bsoc(ial)? ?sec|national ?id\b|identity card|tax ?(payer )?id\b|passport|"
        r"\bdrivers?\b|driving|aadha?ar|\bpan\b|pesel|\bnip\b|dowod|\bbsn\b|burgerservice|"
        r"\bdni\b|\bnie\b|\bnif\b|\bcpf\b|\brg\b|steuer ?(id|nummer|nr)|sozialvers|\bsvnr\b|"
        r"versicherten ?(nr|nummer|id)|krankenvers\w* ?(nr|nummer)|\bkv ?nr\b|ausweis|reisepass|"
        r"fuhrerschein|num\w* (de )?secu|\bnir\b|\bnss\b|carte (nationale )?d ?identite|passeport|"
        r"permis de conduire|seguridad social|pasaporte|passaporte|carteira|"
        r"rijbewijs|paspoort|paszport|prawo jazdy|matdata|voter|\bnhs\b ?(no|nr|num)|"
        r"\bvers(ich\w*?)? ?(nr|nummer|id)\b|insurance ?(no|nr|num\w*|id)\b|"
        r"health ?card ?(no|nr|num\w*|id)\b|num\w* d ?assure|num\w* de (asegurado|afiliado|segurado)|"
        r"verzekerdennummer",
    ),
    (EMAIL, r"e ?mail|courriel|correo|\bmel\b"),
    (
        PHONE,
        r"phone|mobile|\btel\b|telef|handy|portable|celular|\bmovil|telemovel|mobiel|komork|"
        r"durbhash|\bfax\b|\bmob\b|rufnummer",
    ),
    (
        BANK_ACCOUNT,
        r"\biban\b|bank ?(account|konto|verbindung|rekening)|account ?(no|nr|num)|"
        r"konto ?(nr|num)|compte bancaire|\bcuenta|conta (banc|corr)|rekening|numer konta|"
        r"rachun|bank khata|khata (no|sank)",
    ),
    (
        CARD,
        r"(credit|debit|kredit|bank|payment) ?(card|karte)|card ?(no|nr|num)|karten ?(nr|num)|"
        r"carte (banc|bleue|de credit)|tarjeta|cartao|kredietkaart|kaart ?num|numer karty|^card$",
    ),
    (
        ACCOUNT,
        r"user ?name|\blogin\b|\bhandle\b|nick ?name|benutzername|\butilisateur|\busuario|"
        r"gebruikersnaam|uzytkownik|twitter|facebook|linkedin|instagram|account ?name",
    ),
    (DEVICE, r"\bip\b( ?addr\w*)?$|\bmac ?addr|device ?id|\bimei\b|cookie ?id|kennzeichen|"
     r"licen[cs]e plate|number ?plate|immatricul|\bimmat\b|matricula (do|del|de) (veic|veh|coche)|kenteken|"
     r"rejestracyjn|gadi (no|number)"),
    # Both parts of a name in one column, before each of them.
    (
        FULL_NAME,
        r"\b(name|nachname|familienname|zuname) (u|und)? ?vorname|vorname (u|und)? ?(name|nachname|familienname)\b|"
        r"(last|sur|family) ?name (and )?(first|given|fore) ?name|(first|given|fore) ?name (and )?(last|sur|family) ?name|"
        r"\bnom (et )?prenom|prenoms? (et )?nom\b|apellidos? (y )?nombre|nombres? (y )?apellido|"
        r"sobrenome (e )?nome|nome (e )?(sobrenome|apelido)|naam (en )?voornaam|voornaam (en )?(achter)?naam|"
        r"nazwisko (i )?imie|imie (i )?nazwisko",
    ),
    # Parts of a name, before whole names.
    (
        GIVEN_NAME,
        r"given|fore ?name|first ?name|^first$|middle ?name|^middle$|vorname|prenom|primer nombre|"
        r"primeiro nome|voornaam|roepnaam|rufname|call ?name|\bimie\b(?! i )|pratham naam",
    ),
    (
        SURNAME,
        r"surname|last ?name|^last$|family ?name|maiden|nachname|familienname|nom de famille|"
        r"apellido|sobrenome|apelido|achternaam|^nazwisko|upnaam|kul ?naam",
    ),
    (
        ORGANISATION,
        r"(hospital|clinic|klinik|company|firm\w*|organi[sz]ation|contractor|agency|school|"
        r"employer|merchant|vendor|supplier|shop|store|bank|payer|insurer|facility|brand)"
        r" ?(name|naam|nom|nome|nombre)|^(company|organi[sz]ation|contractor|firma|empresa|"
        r"entreprise|bedrijf|employer|arbeitgeber|employeur|werkgever|pracodawca|empleador|"
        r"empregador)$",
    ),
    (
        PLAIN,
        r"(file|measure|product|item|bird|food|drug|column|test|course|table|host|domain|"
        r"display|common|code) ?name",
    ),
    # Quasi-identifiers.
    (
        Meaning("birthplace", quasi=True),
        r"birth ?(place|city|country)|geburts(ort|land)|lieu de naiss|lugar de nac|"
        r"(local|naturalidade) de nasc|geboorteplaats|miejsce urodz|janm ?sthan",
    ),
    (
        BIRTH_DATE,
        r"birth|\bdob\b|geburt|\bgeb\b ?(dat|tag|jahr)?|geboren|naissance|\bne e? le\b|nacimiento|"
        r"\bf ?nac\b|nascimento|geboorte|urodz|\brok ur\b|\bjanm|\bjanam|\bborn\b",
    ),
    (
        Meaning("date of death", quasi=True, sensitive=True),
        r"death|deceased|sterbe|todes|\bdeces\b|defuncion|\bobito|overlijd|zgon|mrityu",
    ),
    (AGE, r"\bage\b|^alter\b|\bedad\b|\bidade\b|leeftijd|\bwiek\b|\bayu\b|\bumar\b|\bumr\b"),
    (
        SEX,
        r"\bsex(e|o)?\b|gender|geschlecht|anrede|^genre$|\bgenero\b|geslacht|\bplec\b|\bling\b|"
        r"^(title|prefix)$|salutation|civilite|name ?title",
    ),
    (
        POSTAL_CODE,
        r"\bzip|post ?(al)? ?code|\bplz\b|postleitzahl|code postal|^cp$|codigo postal|\bcep\b|"
        r"kod pocztowy|\bpin ?code|postnummer",
    ),
    (
        ADDRESS,
        r"addr|street|strasse|\bstr\b|haus ?(nummer|nr)|anschrift|\brue\b|adres|direccion|\bcalle\b|"
        r"domicilio|endereco|\brua\b|morada|straat|huisnummer|\bulica\b|\bpata\b|\bgali\b|\bapartment",
    ),
    (
        PLACE,
        r"\bcity|\btown|suburb|village|municip|\bort\b|wohnort|stadt|\bville\b|\bcommune\b|ciudad|"
        r"localidad|poblacion|cidade|concelho|woonplaats|\bstad\b|gemeente|miasto|miejscow|\bshahar|"
        r"\bnagar|\bgaon\b|\bmohalla|stadtteil|ortsteil|\bquartier|\bbarrio|\bbairro|\bwijk\b|dzielnic|\bneighbou?rhood|home ?town",
    ),
    (
        REGION,
        r"county|\bstate\b|province|\bregion|district|bundesland|\bkreis\b|departement|provincia|"
        r"\bestado\b(?! civil)|distrito|provincie|wojewodz|powiat|\brajya\b|\bzila\b|\bfips\b",
    ),
    (COORDINATE, r"\blat(itude)?\b|\blo?ng?(itude)?\b|breitengrad|langengrad|\bgeo ?(loc|point)"),
    (
        Meaning("ethnic origin", quasi=True, sensitive=True),
        r"\brace\b|ethni|\braza\b|\braca\b|\bjati\b|\bcaste\b|herkunft|origen etnico",
    ),
    (
        COUNTRY,
        r"nationalit|citizen|staatsang|nacionalid|narodowo|obywatel|\bcountry|\bland\b|\bpays\b|"
        r"\bpais\b|\bkraj\b|\bdesh\b|nagrikta",
    ),
    (
        Meaning("religion", quasi=True, sensitive=True),
        r"relig|konfession|\bfaith\b|\bchurch\b|wyznan|\bdharm",
    ),
    (
        Meaning("marital status", quasi=True),
        r"marital|married|familienstand|zivilstand|etat civil|situation (de )?famil|estado civil|"
        r"burgerlijke|stan cywilny|vaivahik|vivahit|verheiratet|\bgehuwd|\bmariee?\b|\bcasad[oa]\b|zonaty|mezatka|relationship|\bspouse|\bchildren\b|\bkinder\b|household",
    ),
    (
        OCCUPATION,
        r"occupation|professi|\bjob\b|employ|\bberuf|arbeitgeber|\bmetier\b|\bemploi|\bprofesion|"
        r"ocupacion|profissao|\bberoep|werkgever|\bzawod|pracodawca|vyavasa?y|\bpesha\b|work ?class|"
        r"speciali?ty|fachrichtung|position held|\bfunctie|stanowisko|\bpuesto\b|^cargo$|^pad$|"
        r"\bfunktion\b|\bstelle\b|\bposte\b|job ?title|department|\bdept\b|\bafdeling|\bdzial\b|departamento|"
        r"\bvibhag|cost ?cent(er|re)|kostenstelle|centre de cout|centro de coste|kostenplaats",
    ),
    (
        EDUCATION,
        r"educat|\bschool|\bdiscipline|\bdegree\b|bildung|abschluss|\betudes\b|diplome|educacion|\bestudios|"
        r"escolaridade|opleiding|wykszt|shiksha|\bclass\b|\bklasse?\b|\bclasse\b|\bcurso\b|\bturma\b|\bkaksha",
    ),
    (LANGUAGE, r"language|sprache|langue|\bidioma|\btaal\b|jezyk|\bbhasha"),
    (WORKING_HOURS, r"hours ?per ?week|arbeitszeit|work(ing)? hours|wymiar|\buren\b|full ?time|teilzeit|jornada"),
    (
        Meaning("doctor or place of treatment", quasi=True),
        r"doctor|physician|\barzt|hausarzt|medecin|\bmedico\b|\bmedica\b|\barts\b|huisarts|lekarz|"
        r"chikitsak|\bprovider|practitioner|\bward\b|\bstation\b|hospital|krankenhaus|klinik|\bclinic\b|"
        r"\bhopital|ziekenhuis|szpital|\baspatal|abteilung|einweis|zuweis|\bbehandler|\bvaidya|\btreating",
    ),
    (
        Meaning("insurer", quasi=True),
        r"\bpayer$|insur|kostentrager|kranken ?kasse|\bkasse\b|versicherung|assurance|mutuelle|asegurad|segurad|"
        r"verzeker|ubezpiecz|\bbima\b",
    ),
    # Sensitive.
    (
        FREE_TEXT,
        r"comment|remark|bemerk|notiz|^notes?$|free ?text|freitext|\bbody\b|message|nachricht|"
        r"observac|opmerk|\buwag|beschwerde|complaint|anamnes|anmerk|\bmemo\b|remarques|tippani",
    ),
    (
        Meaning("health", quasi=True, sensitive=True),  # what others see being bought
        r"pharmac|apothek|apotheek|farmac|\baptek|drug ?store",
    ),
    (
        Meaning("health", sensitive=True),
        r"disease|diagnos|illness|\bcondition\b|symptom|\bicd|krank|\bbefund|maladie|enfermedad|"
        r"doenca|ziekte|chorob|rozpozn|\brog\b|bimari|\bdrugs?\b|medic(?!al record)|medik|prescri|"
        r"rezept|arznei|wirkstoff|dosis|dosage|\bdose\b|ordonnance|traitement|\breceta|tratamiento|"
        r"\bremedio|\blek\b|\bleki\b|\bdawa\b|\bdava\b|therap|behandlung|behandel|procedure|surgery|"
        r"allerg|reaction|\breason|\bfinding|\blabor|\blab\b|blood|\bblut|\bhiv\b|pregnan|schwanger|"
        r"disabil|behinder|smok|alcohol|injur|verletz|blessure|\blesion|\blesao|letsel|\buraz|\bchot\b|"
        r"\bpulse\b|heart ?rate|\bpuls\b|herzfreq|\bpouls\b|\bpulso\b|hartslag|\btetno\b|body ?(weight|height)|"
        r"\bweight|gewicht|\bpoids\b|\bpeso\b|\bwaga\b|\bvajan\b|\bbmi\b|severity|vaccin|impf|treatment|pathol|upchar|"
        r"encounter ?class|\bdispens|\bsick|fehltag|ausfalltag|arrets?\b|chorobow|verzuim|\bziek|\babsen[ct]|"
        r"\bjaanch|lab ?test|test ?result|analyse|alcool|alkohol|\bdiet|\bmenu\b|\bregime\b|\bkostform|"
        r"special need|forderbedarf|\bapoyo|handicap|niepelnospr|invalid|"
        r"^height\b|^korper(grosse|lange)|^grosse (in )?cm\b|^taille (en )?cm\b|^estatura|^altura\b|"
        r"^lengte (in )?cm\b|^wzrost\b",
    ),
    (
        Meaning("money", sensitive=True),
        r"salar|income|\bwage|gehalt|\blohn\b|einkommen|\brevenu|\bingreso|\brenda\b|inkomen|\bloon\b|"
        r"dochod|pensja|\bvetan\b|\baay\b|balance|\bsaldo\b|\bdebt|schuld|\bloan|\bamount|betrag|"
        r"\bsumme\b|\btotal|\bprice|\bpreis\b|\bcosts?\b|totalcost|expense|coverage|payment|montant|"
        r"importe|\bvalor\b|bedrag|kwota|\brashi\b|umsatz|capital ?(gain|loss)|credit ?(score|rating|limit)|"
        r"\bspen[dt]|bonus|\bpremi|\bplaca\b|wynagrodz|\bstawka|\bschaal\b|pay ?(grade|scale|band)|"
        r"lohngruppe|entgelt|\bloon|loon\b|\bfees?\b|\bshulk|gebuhr|honorar|pauschal|\bvat\b|\btax\b|\bmwst|"
        r"\biva\b|\btva\b|\bbtw\b|podatek|scholarship|stipend|\bbeca\b|\bbourse|stypend|kosten\b|\bfrais\b|"
        r"\bcout|\bcoste\b|\bcusto\b|koszt|kharch|lifetime ?val|\bltv\b|\bclv\b|ausgaben|\bgasto|"
        r"\w*miete\b|\brent\b|\bloyer\b|\balquiler|\baluguel|\bhuur\b|\bczynsz|\bkiraya\b|"
        r"\bpago\b|\bpaid\b|\bpagado|\bbezahlt|\bbetaald|\bzaplac|"
        r"\bprix\b|\bprecio|\bpreco|\bprijs|\bcena\b|total value|arrear|overdue|ruckstand|impaye|\batraso|"
        r"achterstand|zaleglosc|\bbakaya\b",
    ),
    (
        Meaning("belief or offence", sensitive=True),
        r"politic|\bparty\b|\bpartei\b|trade ?union|\bunion\b|vakbond|zwiazek|gewerkschaft|sexual|orientation|\bcrime|offen[cs]e|convict|"
        r"\bstraf|sindicato|syndicat",
    ),
    (
        VISITED,
        r"merchant|handler\b|commercant|comercio|\blocation\b|\bplace\b|\bvenue\b|\bpoi\b|check ?in|"
        r"\bstandort\b|\bvisited\b|\bbranch\b|\bfiliale|sucursal|succursale|vestiging|\boddzial",
    ),
    (CONSENT, r"\bopt ?(in|out)\b|consent|einwillig|consentim|toestemming|\bzgod[ay]\b"),
    (
        Meaning("behaviour", sensitive=True),
        r"purchase|bought|\bproduct|\bkauf|\bachat|\bcompra|aankoop|\bzakup|\bsearch|"
        r"\btopic\b|"
        r"(last|first|next) ?(order|purchase|visit|login|seen|contact)|warenkorb|\bsegment|artikel|"
        r"categor|kategor|favou?rit|liebling|prefer|\binterest|\bhobb|newsletter|"
        r"marketing|campaign|kampagne|loyal|\btier\b|\bpoints\b|punkte|\border|bestell|"
        r"\bcommande|\bpedido|encomend|zamow|churn|\brisk|risiko|\brisque|riesgo|\bclicks?\b|\bsessions?\b|"
        r"subscri|\babo\b|abonnement|\bmotif\b|\bmotivo\b|\breden\b|\bpowod|\bgrund\b|\banlass|\bkaran\b|"
        r"\bnature\b|incident|sinistre|schaden",
    ),
    (
        Meaning("assessment", sensitive=True),
        r"\bscore\b|\bgrade\b|\bmark\b|\brating\b|\bnote\b|\bnoten\b|zensur|performance|beurteilung|"
        r"\bnotas?\b|promedio|moyenne|\bocena|\boceny|\bfaltas\b|fehlzeit|disciplin|verweis|\bmalus|evaluat|"
        r"appraisal|beoordeling|avaliac|\bank\b",
    ),
    # The words for a name, after all that are names of something else.
    (
        FULL_NAME,
        r"\b(full|patient\w*|person\w*|customer|client|kunden?|employee|mitarbeiter|member|contact|"
        r"holder|card ?holder|owner|inhaber|subject|worker|student|teacher|author|winner|guest|"
        r"doctor|arzt|applicant|borrower|tenant|mieter) ?(name|naam|nom|nome|nombre)\b|^(voller )?name$|"
        r"^nom( complet)?$|^nombre( completo)?$|^nome( completo)?$|^(volledige )?naam$|"
        r"^pura naam$",
    ),
    (
        SOME_NAME,
        r"name$|\bname\b|\bnaam\b|naam$|\bnoms?\b|\bnomb?re\b|\bnome\b|\bimie\b|nazwa|bezeichnung",
    ),
    (YEAR, r"\byear\b|\bjahr\b|\bannee\b|\bano\b|\bjaar\b|\brok\b|\bsaal\b"),
    (DATE, r"\bdate\b|\bdatum\b|\bfecha\b|\bdata\b|\btarikh|\bdinank|aufnahme|entlass|admission|discharge|"
           r"\bvisit|besuch|\btermin\b|datum$|^start$|^stop$|^end$"),
)  # fmt: skip
"""Meaning -> names of columns; the first that fits decides."""
_PATTERNS: Final = tuple(
    (meaning, re.compile(pattern)) for meaning, pattern in _MEANINGS
)
_LANGUAGES: Final = {
    "en": re.compile(r"name$|date$|\b(zip|city|street|country|disease|phone|address|gender|birth|amount|price|order|customer|number|first|last)\b"),
    "de": re.compile(r"geb\b|geburt|nummer|strasse|\bplz\b|\bort\b|wohnort|geschlecht|datum|nachname|vorname|diagnose|betrag|bemerk|\bkund|kunden|versichert|station|aufnahme|entlass|gehalt|\bund\b|arzt"),
    "es": re.compile(r"\b(fecha|nombre|apellidos?|codigo|correo|telefono|nacimiento|nacido|sexo|direccion|ciudad|cliente|importe|alumno|curso|barrio|nota|grupo|del|edad|pais|enfermedad|salario)\b"),
    "fr": re.compile(r"\b(nom|prenom|naissance|ne|ville|commune|adresse|sexe|montant|assure|courriel|maladie|numero|client|jours|nature)\b"),
    "pt": re.compile(r"\b(nome|sobrenome|nascimento|codigo|endereco|cidade|valor|doenca|idade|bairro|morada)\b"),
    "nl": re.compile(r"naam$|datum$|\b(geboorte|postcode|woonplaats|geslacht|straat|bedrag|functie|afdeling|loon|uren|reden|dienst|ziek)\b|nr$"),
    "pl": re.compile(r"\b(imie|nazwisko|data|urodzenia|kod|ulica|miasto|plec|kwota|pracownik|stanowisko|dzial|placa|nr|rok)\b"),
    "hi": re.compile(r"\b(naam|umr|ling|gaon|tarikh|bimari|dava|janm|pata|mariz|marij|ka)\b"),
}  # fmt: skip
"""Language -> words in names of columns."""
_ARABIC: Final = re.compile(r"[\u0620-\u064a]")
_CAMEL: Final = re.compile(
    r"(?<=[a-zà-þ0-9])(?=[A-ZÀ-Þ])|(?<=[A-ZÀ-Þ])(?=[A-ZÀ-Þ][a-zà-þ])"
)
_LETTERS: Final = str.maketrans({"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "æ": "ae"})
KEY: Final = re.compile(
    r"\b(?:id|key|no|nr|uuid|guid|number|code|nummer|numero|num|numer|sankhya|kennung|identifier)$|"
    r"^(?:id|uuid|guid|uid|rec)\b|^(?:n|nr|num|numero|numer) |^no (?!of )|\w{3}(?:nummer|nr|kennung)$|\buid$"
)
_SUBJECT: Final = re.compile(
    r"patient|person|customer|client|subject|\buser|member|citizen|employee|\bowner|account|"
    r"kund|mitarbeiter|versicherte|utilisateur|salarie|paciente|usuario|empleado|cliente|"
    r"funcionario|klant|gebruiker|werknemer|medewerker|pacjent|klient|pracownik|rogi\b|mariz|"
    r"grahak|\buid\b|\bworker\b"
)

_KIND: Final = re.compile(
    r"ship$|(?:typ|type|art|grupp|gruppe|groep|group|segment|klasse|class|status|stand|"
    r"kategorie|categorie|zahl|count|aantal|since|seit)$"
)
"""What a person has or is, not who it is: ownership, Kundengruppe, membership."""


def words_of(name: str) -> str:
    """Return a column's name as it is compared: words in small letters, no accents."""
    spaced = _CAMEL.sub(" ", name.translate(_LETTERS))
    bare = unicodedata.normalize("NFKD", spaced)
    kept = "".join(c for c in bare if not unicodedata.combining(c)).casefold()
    return " ".join(re.findall(r"[^\W_]+", kept))


def meaning_of(name: str, but: Collection[Meaning] = ()) -> Meaning:
    """Return what the name of a column says; :data:`PLAIN` where it says nothing.

    Parameters
    ----------
    name : str
    but : collection of Meaning
        What it does not say, by its values.
    """
    words = words_of(name)
    fitting = (m for m, pattern in _PATTERNS if m not in but and pattern.search(words))
    return next(fitting, PLAIN)


def language_of(names: Iterable[str]) -> str:
    """Return the language that names of columns are in: en, de, es, ar, ...; or ``en``.

    Counted by words that other languages do not have; English where none leads.
    """
    counts: Counter[str] = Counter()
    for name in names:
        if _ARABIC.search(name):
            counts["ar"] += 1
        words = words_of(name)
        counts.update(code for code, form in _LANGUAGES.items() if form.search(words))
    (best, most), *rest = [*counts.most_common(2), ("en", 0)]
    return best if most > 1 and (not rest or rest[0][1] < most) else "en"


def names_key(name: str) -> bool:
    """Whether a column of this name may number the rows."""
    return KEY.search(words_of(name)) is not None


def names_number(name: str) -> bool:
    """Whether a column of this name has numbers given to things, and not a code."""
    words = words_of(name)
    return KEY.search(words) is not None and not words.endswith("code")


def names_role(name: str) -> bool:
    """Whether a column of this name is about people in a role: customers, employees."""
    return _SUBJECT.search(words_of(name)) is not None


def names_person(name: str) -> bool:
    """Whether a column of this name may say whose a row is."""
    words = words_of(name)
    if _SUBJECT.search(words) is None:
        return False
    return names_key(name) or (len(words.split()) == 1 and not _KIND.search(words))
