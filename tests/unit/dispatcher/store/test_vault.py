"""Open keys are kept for the next value, but not without bound."""

from dispatcher.store.vault import CACHED, Vault


def test_the_cache_of_open_keys_has_a_bound():
    vault = Vault()
    for number in range(CACHED + 10):
        vault._keep(number, None)
    kept = [number for number in range(CACHED + 10) if number in vault]
    assert kept == list(range(10, CACHED + 10))
