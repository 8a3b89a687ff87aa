"""What is sealed, and sealed anew."""

from dispatcher.model import metadata
from dispatcher.store import rekey


def test_every_column_with_values_is_known_to_the_rekeying():
    # A table with a key_id that is missing there would stay in clear for ever.
    keyed = {
        table.name for table in metadata.sorted_tables if "key_id" in table.columns
    }
    assert keyed == {plain.table for plain in rekey.TABLES}
