"""Assembly: answers become results, results and loaded columns whole records again.

Reads ``answer`` and ``task``, writes ``result`` (:class:`Assembly`); reads ``record``
and ``result``, writes files (:func:`reassemble`).
"""

from dispatcher.stages.assembly.counting import Assembly
from dispatcher.stages.assembly.records import Reassembled, reassemble, write_records

__all__ = ["Assembly", "Reassembled", "reassemble", "write_records"]
