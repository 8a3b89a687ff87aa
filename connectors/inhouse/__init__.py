"""The in-house connector: our own task page, opened by personal signed links."""

from connectors.base import Plugin
from connectors.inhouse.market import MANIFEST, Inhouse, open_inhouse
from connectors.tickets import Ticket, sign

__all__ = ["CONNECTOR", "Inhouse", "Ticket", "sign"]

CONNECTOR = Plugin(MANIFEST, open_inhouse)
