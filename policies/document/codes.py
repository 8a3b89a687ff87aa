"""All diagnostic codes, with one page each: ``dispatcher explain POL203``.

Codes are stable: none changes its meaning, and a retired one is never reused. POL0xx
syntax and keys, POL1xx names, POL2xx mathematics and feasibility, POL3xx warnings, POL4xx
what a file of records shows and the policy ignores (``policy check --against FILE``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Code:
    """One diagnostic code.

    Attributes
    ----------
    title : str
        What is wrong, in general.
    text : str
        Why it matters, and exactly when it applies.
    wrong, right : str
        A part of a policy file that has the fault, and the same part corrected.
    strict : bool
        Raised only with ``--strict``.
    """

    title: str
    text: str
    wrong: str
    right: str
    strict: bool = False


CODES: Final[Mapping[str, Code]] = {
    "POL001": Code(
        "the file is not a TOML text",
        "A policy file is UTF-8 text in TOML 1.0; a leading byte order mark is skipped, "
        "CRLF is one line end. Whatever the parser cannot take has this code: a syntax "
        "error, bytes that are not UTF-8, values nested too deep, a number too long to "
        "read, a file over 4 MiB. It is the only diagnostic of such a file, since "
        "nothing else of it can be trusted.",
        'key = "rx_id',
        'key = "rx_id"',
    ),
    "POL002": Code(
        "unknown key",
        "A key that the language does not know is an error, never skipped: a mistyped "
        '`discolsure` must not silently mean "step". The message lists the keys that '
        "the table knows.",
        'of = ["name", "disease"]\ndiscolsure = { kind = "step", at = 2 }',
        'of = ["name", "disease"]\ndisclosure = { kind = "step", at = 2 }',
    ),
    "POL003": Code(
        "a value of the wrong type or out of range",
        'The ranges: tau 0 < tau <= 1 (or "none"); weights 0 < a <= 1; averages 0 < '
        "average <= 1; lambda, utility and weights of [[utility]] >= 0; t, answers, `at` "
        "and capacities integers >= 1. true and false are no numbers, inf and nan are "
        "errors, an integer fits 64 bits, a decimal has at most 30 digits and an exponent "
        "within +-30. Lists of names are not empty and name each thing once. A glob is "
        "not empty and closes its `[`. A file has exactly one entity. Names in verdicts "
        "(budget.t, budget.average, budget.utility, fields.send) are no names of rules.",
        "answers = 0",
        "answers = 1",
    ),
    "POL004": Code(
        "a word that is not one of the list",
        "Some keys take one word of a closed list: `ask`, `scope`, `objective`, "
        "`disclosure` and its `kind`, `per`, `from`, `expect`.",
        'disease = { ask = "transcrib" }',
        'disease = { ask = "transcribe" }',
    ),
    "POL005": Code(
        "a key that must be there is missing",
        "`version` and `name` of the file, `key` and `fields` of the entity, `of` or "
        '`any_of` of a rule, `choices` with ask = "choose", `columns` with ask = '
        '"table", `vector` of common and cosine, `table` of posterior, '
        "information-gain and mean-information-gain, `members` of a group, and `name`, `worker`, `ask`, `expect` of "
        "a test have no sensible default.",
        'gender = { ask = "choose" }',
        'gender = { ask = "choose", choices = ["F", "M", "X"] }',
    ),
    "POL006": Code(
        "two keys that exclude each other",
        "`of` is one set, `any_of` several alternatives; `weights` go by field, `per` by "
        "entry; a [[utility]] row has a `weight` or takes it `from` somewhere. With both, "
        "one of them would silently not count.",
        'of = ["name", "zip"]\nany_of = [["name"], ["zip"]]',
        'any_of = [["name", "disease"], ["zip", "disease"]]',
    ),
    "POL101": Code(
        "unknown field",
        "A rule, a weight, a [[utility]] row or a test names a field that the entity does "
        "not declare. Names are compared code point by code point, without normalisation: "
        "a composed and a decomposed accent are two names.",
        'of = ["patient_name", "desease"]',
        'of = ["patient_name", "disease"]',
    ),
    "POL102": Code(
        "a column that is never sent",
        "The key, the subject and the time of a record are never sent to a worker: who "
        "sees the same key twice can put all the answers of that record together, and "
        "the subject does the same across records. A field may have such a column only "
        "with send = false.",
        'key = "rx_id"\n[entity.rx.fields]\nrx_id = { ask = "transcribe" }',
        'key = "rx_id"\n[entity.rx.fields]\ndrug = { ask = "transcribe" }',
    ),
    "POL103": Code(
        "unknown relation",
        "A relation rule, or the facts of a test, name a link table that the file does "
        "not declare.",
        'scope = "relation"\nrelation = "friendships"',
        'scope = "relation"\nrelation = "friendship"\n\n[relation.friendship]\n'
        'source = "friends.csv"\nends = ["user_a", "user_b"]',
    ),
    "POL104": Code(
        "the entity lacks a column that a rule needs",
        "A subject rule groups the records of one person, a relation rule pairs people: "
        "both need `subject`. A window slides over moments: it needs `time`.",
        '[entity.receipt]\nkey = "receipt_id"',
        '[entity.receipt]\nkey = "receipt_id"\nsubject = "employee_id"',
    ),
    "POL105": Code(
        "unknown rule",
        "`trusted` of a group, and `by` of a test, name rules of the same file.",
        'trusted = ["patient-drgu"]',
        'trusted = ["patient-drug"]',
    ),
    "POL201": Code(
        "a limit that nothing can meet",
        "The limit is strict, f < tau, and f is never below 0: with tau = 0 every plan is "
        "refused, even the empty one. It is raised for each rule whose tau in force is "
        "not above 0, at the place it was written; a budget.tau of 0 is no error where "
        "every rule has its own.",
        "[budget]\ntau = 0.0",
        "[budget]\ntau = 1.0",
    ),
    "POL202": Code(
        "weights that do not add up to 1",
        "Seeing the whole set must mean f = 1; otherwise tau has no fixed meaning. The "
        "sum is exact, on the decimals as written.",
        "weights = { iban = 0.6, merchant = 0.2, total = 0.1 }",
        "weights = { iban = 0.667, merchant = 0.222, total = 0.111 }",
    ),
    "POL203": Code(
        "a rule that no plan can meet",
        "One entry alone takes the rule to its limit: a step set or alternative of one "
        "field, at = 1, or a weight, to the power of the kind, that is not below tau. "
        "Every field must be shown to at least one worker, so no plan exists. It is not "
        "raised where the field has send = false, or some group is trusted with the rule.",
        '[property.account]\nof = ["iban"]',
        '[property.account]\nof = ["iban", "holder"]',
    ),
    "POL204": Code(
        "more answers than showings",
        "Every answer comes from another worker, and `budget.t` caps the workers that a "
        "field is ever shown to, so answers <= t.",
        't = 2\n…\ndrug = { ask = "transcribe", answers = 3 }',
        't = 5\n…\ndrug = { ask = "transcribe", answers = 3 }',
    ),
    "POL205": Code(
        "a key that has no effect",
        "The key is known, but what stands beside it makes it mean nothing: `lambda` "
        'without the tradeoff, `choices` without ask = "choose", `min` or `max` without '
        'ask = "number", `question` without an `ask`, `relation` without scope = '
        '"relation", `weight` without `per`, `by` in a test that expects allow. What has '
        "no effect was meant to have one.",
        'objective = "disc-budget"\nlambda = 2.0',
        'objective = "tradeoff"\nlambda = 2.0',
    ),
    "POL206": Code(
        "common and cosine need a relation",
        "They compare the published places of two people, so the rule must say which "
        'pairs: scope = "relation" and the link table.',
        'of = ["place"]\ndisclosure = "cosine"',
        'scope = "relation"\nrelation = "friendship"\nof = ["place"]\n'
        'disclosure = { kind = "cosine", vector = "place_id" }',
    ),
    "POL207": Code(
        "a sum over a person needs a weight for each entry",
        "A person may have any number of entries of a field, so weights by field would "
        'not add up to 1. With per = "entry" every held entry adds the same weight, '
        "clamped at 1.",
        'scope = "subject"\nof = ["disease", "drug"]\ndisclosure = "linear"',
        'scope = "subject"\nof = ["disease", "drug"]\n'
        'disclosure = { kind = "linear", per = "entry", weight = 0.25 }',
    ),
    "POL208": Code(
        "a window needs a subject rule",
        "A window slides over the entries of one person in time; one record has one "
        "moment, and links have none.",
        'of = ["merchant", "date"]\nwindow = "30d"',
        'scope = "subject"\nof = ["merchant", "date"]\nwindow = "30d"',
    ),
    "POL209": Code(
        'tau = "none" needs the tradeoff',
        "Without a limit, only the tradeoff's objective weighs disclosure against "
        "utility; under disc-budget nothing would keep it down.",
        '[budget]\nobjective = "disc-budget"\ntau = "none"',
        '[budget]\nobjective = "tradeoff"\ntau = "none"',
    ),
    "POL210": Code(
        "a disclosure that does not fit a relation",
        "Record and subject rules take step and the powers of a sum; a relation rule "
        "compares what is held of two people and takes common or cosine. posterior, "
        "information-gain, mean-information-gain and plugins fit any scope; over a "
        "relation they name the fields of the two ends `left.FIELD` and `right.FIELD`.",
        'scope = "relation"\nrelation = "friendship"\nof = ["place"]',
        'scope = "relation"\nrelation = "friendship"\nof = ["place"]\n'
        'disclosure = { kind = "common", vector = "place_id" }',
    ),
    "POL211": Code(
        "alternatives have no sum",
        "`any_of` is complete when any one of its alternatives is: it takes step "
        "disclosure without `at`, and nothing else.",
        'any_of = [["name", "disease"], ["zip", "disease"]]\ndisclosure = "linear"',
        'any_of = [["name", "disease"], ["zip", "disease"]]',
    ),
    "POL212": Code(
        "a field declared free stands in a rule",
        "free = true says, for readers and reviewers, that a field is in no sensitive "
        "set. The claim is checked.",
        'topic = { ask = "choose", choices = ["a"], free = true }\n…\n'
        'of = ["topic", "email"]',
        'topic = { ask = "choose", choices = ["a"] }\n…\nof = ["topic", "email"]',
    ),
    "POL213": Code(
        "relation rules that read places from different columns",
        "A record is at one place, so many times. That is stored with its entries when "
        "they are loaded, and is what the evidence proves, once for all relation rules: "
        "they must name the same `vector` and the same `count`. Each may have a relation, "
        "fields, a kind and a limit of its own.",
        'disclosure = { kind = "common", vector = "place_id" }\n…\n'
        'disclosure = { kind = "cosine", vector = "city" }',
        'disclosure = { kind = "common", vector = "place_id" }\n…\n'
        'disclosure = { kind = "cosine", vector = "place_id" }',
    ),
    "POL214": Code(
        "crops that overlap",
        "Whoever is shown a crop sees all that lies in its box. Where the boxes of two "
        "fields have an area in common on one page, either crop exposes both fields: "
        "one showing may complete what a rule keeps apart, show a field that is "
        "sensitive by itself, or one with send = false. That is an error as soon as a "
        "rule names either field, or either is never sent. A field without a box shows "
        "all of its first page, and so overlaps every box on it; two fields with one "
        "box overlap too. Boxes that only touch do not. Boxes that a record brings in "
        "pixels are compared when it is loaded, and a record with overlapping ones is "
        "rejected.",
        'name = { ask = "transcribe", image = "scan#roi.name" }\n'
        'disease = { ask = "transcribe", image = "scan#roi.form" }\n…\n'
        '"roi.name" = { page = 1, box = [0.1, 0.1, 0.5, 0.1] }\n'
        '"roi.form" = { page = 1, box = [0, 0, 1, 1] }',
        'name = { ask = "transcribe", image = "scan#roi.name" }\n'
        'disease = { ask = "transcribe", image = "scan#roi.diag" }\n…\n'
        '"roi.name" = { page = 1, box = [0.1, 0.1, 0.5, 0.1] }\n'
        '"roi.diag" = { page = 1, box = [0.1, 0.2, 0.5, 0.1] }',
    ),
    "POL215": Code(
        "a crop that is painted over",
        "A box with redact = true is painted over on that page of every picture before "
        "a crop is cut. Here it covers all that the field would show, so that whoever "
        "is asked for the field could see nothing; a field whose own box has redact = "
        "true is such a field too.",
        'name = { ask = "transcribe", image = "scan#roi.name" }\n…\n'
        '"roi.name" = { page = 1, box = [0.1, 0.1, 0.5, 0.1] }\n'
        '"roi.head" = { page = 1, box = [0, 0, 1, 0.3], redact = true }',
        'name = { ask = "transcribe", image = "scan#roi.name" }\n…\n'
        '"roi.name" = { page = 1, box = [0.1, 0.1, 0.5, 0.1] }\n'
        '"roi.head" = { page = 1, box = [0, 0, 1, 0.1], redact = true }',
    ),
    "POL301": Code(
        "a policy without rules",
        "Without [property.NAME] every worker may be shown every field, apart from t and "
        "the capacities.",
        'version = 1\nname = "x"\n[entity.x]\n…',
        '…\n[property.who-what]\nof = ["name", "disease"]',
    ),
    "POL302": Code(
        "an alternative that adds nothing",
        "It has all the fields of a shorter alternative, so it can be complete only after "
        "that one is.",
        'any_of = [["name", "disease"], ["name", "zip", "disease"]]',
        'any_of = [["name", "disease"]]',
    ),
    "POL304": Code(
        "a box that no field shows",
        "`layout` has a box that no field's `image` names, often because of a mistyped "
        "name: the field would then look for a column of that name in each record.",
        'name = { ask = "transcribe", image = "scan#roi.nmae" }\n…\n'
        '"roi.name" = { page = 1, box = [0.1, 0.1, 0.5, 0.1] }',
        'name = { ask = "transcribe", image = "scan#roi.name" }',
    ),
    "POL306": Code(
        "a link table that no rule reads",
        "The table is loaded and pinned, but no rule has it as its `relation`.",
        '[relation.friendship]\nsource = "friends.csv"\nends = ["a", "b"]',
        '[property.friend-link]\nscope = "relation"\nrelation = "friendship"\n…',
    ),
    "POL307": Code(
        "nothing limits a rule",
        'With tau = "none" and no average, the tradeoff weighs the rule against utility '
        "and may give all of it away. That is the paper's pure tradeoff; be sure that it "
        "is meant.",
        'objective = "tradeoff"\ntau = "none"',
        'objective = "tradeoff"\ntau = 0.9',
    ),
    "POL308": Code(
        "only the average is limited",
        "A mean over many sets hardly moves when one of them is disclosed: one fully "
        "linked person among 2,935 makes it 0.0003. Use a hard limit beside it.",
        'tau = "none"\naverage = 0.01',
        "tau = 0.3\naverage = 0.01",
    ),
    "POL309": Code(
        "a record rule does not look across records",
        "A *record* rule does not count the name on one record together with the disease "
        "on another record of the same person. If workers can tell that two records belong "
        "together (handwriting, the same rare doctor, order of arrival), use scope = "
        '"subject".',
        '[property.patient-disease]\nof = ["name", "disease"]',
        '[property.patient-disease]\nscope = "subject"\nof = ["name", "disease"]',
        strict=True,
    ),
    "POL310": Code(
        "no spare showing",
        "`t` is set to the number of answers wanted. A task that is returned, expires or "
        "is answered badly has used up a showing, and the field can never have all its "
        "answers. Without `t` each field has its answers + 2.",
        't = 3\n…\ndrug = { ask = "transcribe", answers = 3 }',
        't = 5\n…\ndrug = { ask = "transcribe", answers = 3 }',
    ),
    "POL311": Code(
        "a field in no rule",
        "Any worker may be shown it together with anything else. Say free = true if that "
        "is meant, so that the next reader need not ask. It is said of fields that show a "
        "box of a scan: boxes are drawn before there are rules. Of other fields it is said "
        "with `--strict`.",
        'name = { ask = "transcribe", image = "scan#roi.name" }\n# no rule',
        'name = { ask = "transcribe", image = "scan#roi.name" }\n…\n'
        '[property.name-apart]\nof = ["name", "disease"]',
    ),
    "POL312": Code(
        "crops that overlap, of fields in no rule",
        "Whoever is shown one of the crops sees part of the other field too. No rule "
        "names either field, so no limit f < tau can be crossed by it. But `t` counts "
        "the showings of each crop alone: more than t people may see the field. As soon "
        "as a rule names one of the fields it is an error (POL214).",
        'signed = { ask = "yes_no", image = "scan" }\n'
        'logo = { ask = "yes_no", image = "scan#roi.logo" }',
        'signed = { ask = "yes_no", image = "scan#roi.foot" }\n'
        'logo = { ask = "yes_no", image = "scan#roi.logo" }',
    ),
    "POL313": Code(
        "a box that is the whole page",
        "Nothing is cut off: whoever is shown the field sees the page, with all that "
        "stands on it. If the whole page is meant, leave the box out and say so.",
        'name = { ask = "transcribe", image = "scan#roi.name" }\n…\n'
        '"roi.name" = { page = 1, box = [0, 0, 1, 1] }',
        'name = { ask = "transcribe", image = "scan#roi.name" }\n…\n'
        '"roi.name" = { page = 1, box = [0.1, 0.1, 0.5, 0.1] }',
    ),
    "POL314": Code(
        "a question that only its writer understands",
        "Without `question` a worker is asked by the field's name and kind. For yes_no and "
        "spans that says too little: what is to be so, and which passages are meant?",
        'signed = { ask = "yes_no" }',
        'signed = { ask = "yes_no", question = "Is the form signed?" }',
    ),
    "POL315": Code(
        "a field without a question of its own",
        "The worker is asked by the field's name and kind: `patient_name` becomes "
        '"Patient name: type exactly what you see". A question in the words of the form '
        "is understood sooner, and in the language of your people.",
        'dob = { ask = "date" }',
        'dob = { ask = "date", question = "Which date of birth is written here?" }',
        strict=True,
    ),
    "POL316": Code(
        "a rule that refuses nothing",
        "Each set of the rule needs a field with send = false. Nobody is ever shown it, so "
        "that nobody completes a set. A drafted policy keeps such rules for the day on "
        "which the field is sent.",
        'iban = { ask = "yes_no", send = false }\n…\n'
        '[property.account]\nof = ["iban", "name"]',
        'name = { ask = "yes_no" }\n…\n[property.account]\nof = ["name", "total"]',
        strict=True,
    ),
    "POL401": Code(
        "a stranger may see what singles people out",
        "In the file of records the columns single out at least 5 % of the people: some "
        "values of theirs are nobody else's, so that whoever knows these of somebody knows "
        "whose record it is. No rule keeps one worker from seeing all of them of one "
        "record. A person is known by the subject's column; without one, each record is "
        "taken as a person. Combinations of up to three columns are counted, whatever "
        "they are called, and only the smallest are reported: themselves if two of them "
        "are quasi-identifiers, else with each sensitive column; what identifies alone is "
        "reported with what may be seen beside it.",
        '[property.who-what]\nof = ["name", "disease"]\n…\n'
        "# birth_date, zip and sex single out 71 % of the people",
        '[property.quasi-identifiers]\nany_of = [["birth_date", "zip", "sex"]]',
    ),
    "POL402": Code(
        "a stranger may see a direct identifier beside other fields",
        "The column says alone who somebody is: a full name, an e-mail address, a phone "
        "number, a bank account or a national number, by its name or by its values (check "
        "digits are checked). What is seen of the same person beside it is known of them.",
        'email = { ask = "transcribe" }\ndisease = { ask = "transcribe" }\n# no rule',
        '[property.email-apart]\nof = ["email", "disease"]',
    ),
    "POL403": Code(
        "fields that tell what a rule keeps apart",
        "A rule keeps a field apart from others, but in the file of records other fields "
        "tell its value: two records with the same name and drug have the same disease in "
        "93 % of the cases. Whoever may see these learns what the rule is to keep from "
        "them. It is reported from 80 % on, and where at least half of the doubt is gone.",
        '[property.patient-disease]\nof = ["name", "disease"]\n…\n'
        "# drug tells disease in 93 % of cases",
        '[property.patient-disease]\nany_of = [["name", "disease"], ["name", "drug"]]',
    ),
    "POL404": Code(
        "a text that holds names or numbers of people",
        "Texts of the column hold names of the same record, titles before a name, or "
        "numbers of people (by their form, and by presidio-analyzer with the extra `pii`). "
        "Whoever is shown such a text sees them too, whatever the rules keep apart.",
        'comment = { ask = "transcribe" }',
        'comment = { ask = "transcribe", redact = ["PERSON", "PHONE"] }',
    ),
    "POL405": Code(
        "columns of the policy that the file lacks",
        "The policy reads columns that the file does not have: it may be a policy for "
        "another file. What the file shows and the policy does not name was not checked, "
        "so that no other warning means little.",
        'email = { ask = "transcribe" }\n# the file has id, name and disease',
        'name = { ask = "transcribe" }',
    ),
}


def explain_rule(code: str) -> str:
    """Return the page of one code as Markdown.

    Raises
    ------
    KeyError
        If there is no such code; :data:`CODES` lists them.
    """
    found = CODES[code]
    severity = "warning" if code.startswith(("POL3", "POL4")) else "error"
    when = ", only with `--strict`" if found.strict else ""
    when = ", only with `--against FILE`" if code.startswith("POL4") else when
    return (
        f"# {code}: {found.title}\n\n"
        f"Severity: {severity}{when}.\n\n"
        f"{found.text}\n\n"
        f"## Raised for\n\n```toml\n{found.wrong}\n```\n\n"
        f"## Mended\n\n```toml\n{found.right}\n```\n"
    )
