"""The turn to write goes round: nobody takes it twice while another waits."""

import threading

from dispatcher.store.engine import FairLock
from tests.patience import PATIENCE, until


def test_it_is_given_in_the_order_of_asking() -> None:
    turn, order = FairLock(), []
    assert turn.acquire(1)
    threads = []

    def take(name: int) -> None:
        assert turn.acquire(PATIENCE)
        order.append(name)
        turn.release()

    for name in range(5):
        threads.append(threading.Thread(target=take, args=(name,)))
        threads[-1].start()
        until(lambda n=name: len(turn._waiting) > n, "it waits", pause=0.001)
    turn.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == [0, 1, 2, 3, 4]


def test_whoever_gives_it_back_does_not_get_it_before_one_who_waits() -> None:
    turn, said = FairLock(), []
    assert turn.acquire(1)
    other = threading.Thread(target=lambda: said.append(turn.acquire(PATIENCE)))
    other.start()
    until(lambda: turn._waiting, "the other waits", pause=0.001)
    turn.release()
    assert not turn.acquire(0)
    other.join(PATIENCE)
    assert said == [True]


def test_who_waits_in_vain_is_no_longer_in_the_row() -> None:
    turn = FairLock()
    assert turn.acquire(1)
    assert not turn.acquire(0.01)
    turn.release()
    assert turn.acquire(0)
