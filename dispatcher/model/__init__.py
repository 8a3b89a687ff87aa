"""The tables, in flow order: record -> entry -> plan -> ledger -> task -> answer.

Conventions that hold for every table:

* Timestamps are integers: microseconds since 1970-01-01 UTC. Columns named ``at`` or
  ending in ``_at``, ``_until`` or ``due`` hold one.
* Values of records are bytes with a nullable ``key_id`` (None: stored in clear), so
  that encryption changes no schema.
* States are text with a CHECK, and :data:`TRANSITIONS` is the one table of what may
  follow what.
* Ids are integers reserved in blocks (table ``id_block``), so that bulk writes know
  them before the database does.
* A **unit** is what one sensitive set is made for: a record or a subject. Its id is
  ``2 * record_id`` or ``2 * subject_id + 1`` (:func:`record_unit`,
  :func:`subject_unit`).

SQLModel does not validate tables: values are checked at the door, and by the CHECK
constraints here.
"""

from dispatcher.model.columns import metadata
from dispatcher.model.ledger import (
    DisclosureSum,
    ExposureCount,
    KeyLine,
    LedgerLine,
    Link,
    RuleTable,
    SetCount,
    VisitCount,
)
from dispatcher.model.money import DAY, UNIT, Budget, Payment, PaymentEvent
from dispatcher.model.notices import (
    ALIVE,
    NOTICES,
    TEST,
    Notice,
    NoticeDelivery,
    NoticeType,
    Webhook,
)
from dispatcher.model.people import ApiToken, AppUser, AuditLine
from dispatcher.model.plans import Account, Assignment, Chain, Held, Plan, Recusal
from dispatcher.model.questions import FieldTest, GoldQuestion, GoldTask, Qualification
from dispatcher.model.records import (
    Entry,
    FieldName,
    IdBlock,
    Load,
    PolicyLock,
    PolicyVersion,
    Record,
    Run,
    Setting,
    Subject,
    Suppression,
    ValueKey,
)
from dispatcher.model.running import (
    ApiRequest,
    BrowserArrival,
    Cursor,
    Event,
    Lease,
    OperatorSession,
    Pause,
    Sample,
    SignInLink,
    SuspectPair,
    UnshippedPiece,
    WebhookDelivery,
    WorkerSession,
)
from dispatcher.model.states import (
    LIVE_TASK_STATES,
    SYSTEM_CHAIN,
    TRANSITIONS,
    link_unit,
    record_unit,
    subject_unit,
)
from dispatcher.model.work import (
    ExportFile,
    Outbox,
    Quarantine,
    Result,
    Task,
    TaskAnswer,
)

__all__ = [
    "ALIVE",
    "DAY",
    "LIVE_TASK_STATES",
    "NOTICES",
    "SYSTEM_CHAIN",
    "TEST",
    "TRANSITIONS",
    "UNIT",
    "Account",
    "ApiRequest",
    "ApiToken",
    "AppUser",
    "Assignment",
    "AuditLine",
    "BrowserArrival",
    "Budget",
    "Chain",
    "Cursor",
    "DisclosureSum",
    "Entry",
    "Event",
    "ExportFile",
    "ExposureCount",
    "FieldName",
    "FieldTest",
    "GoldQuestion",
    "GoldTask",
    "Held",
    "IdBlock",
    "KeyLine",
    "Lease",
    "LedgerLine",
    "Link",
    "Load",
    "Notice",
    "NoticeDelivery",
    "NoticeType",
    "OperatorSession",
    "Outbox",
    "Pause",
    "Payment",
    "PaymentEvent",
    "Plan",
    "PolicyLock",
    "PolicyVersion",
    "Qualification",
    "Quarantine",
    "Record",
    "Recusal",
    "Result",
    "RuleTable",
    "Run",
    "Sample",
    "SetCount",
    "Setting",
    "SignInLink",
    "Subject",
    "Suppression",
    "SuspectPair",
    "Task",
    "TaskAnswer",
    "UnshippedPiece",
    "ValueKey",
    "VisitCount",
    "Webhook",
    "WebhookDelivery",
    "WorkerSession",
    "link_unit",
    "metadata",
    "record_unit",
    "subject_unit",
]
