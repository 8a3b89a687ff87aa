"""The store keeps its promises on both databases."""

from dispatcher.store import Store


def test_a_write_is_seen_by_the_next_read(store: Store) -> None:
    with store.write() as tx:
        tx.execute("INSERT INTO pause VALUES (?, ?, ?)", ["all", "why", 1])
    with store.read() as tx:
        assert tx.rows("SELECT * FROM pause") == [("all", "why", 1)]


def test_a_list_parameter_finds_all_its_members(store: Store) -> None:
    rows = [(i, f"f{i}") for i in range(1000)]
    with store.write() as tx:
        assert tx.insert_many("field", ["id", "name"], rows) == 1000
        assert tx.rows(
            "SELECT id FROM field WHERE id = ANY(?) ORDER BY id", [[3, 5, 7000]]
        ) == [(3,), (5,)]
        assert (
            tx.value("SELECT count(*) FROM field WHERE name = ANY(?)", [["f1", "f2"]])
            == 2
        )
        assert (
            tx.value("SELECT count(*) FROM field WHERE id <> ALL(?)", [[1, 2]]) == 998
        )
