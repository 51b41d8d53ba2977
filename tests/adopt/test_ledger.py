"""The ledger finds what it is for: each fault, told of a history of a few messages."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest

from tests.adopt.ledger import Delivery, Handled, Ledger

START = datetime(2030, 1, 1, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def delivery(key: str, moment: float, lease: float = 30, read_ct: int = 1, whole: bool = True) -> Delivery:
    return Delivery(key, read_ct, at(moment), at(moment + lease), at(moment), whole)


@pytest.fixture
def ledger() -> Ledger:
    """Three messages: one deleted, one archived, one whose first lease ran out before it was deleted."""
    ledger = Ledger()
    ledger.tried = {"a", "b", "c", "doubtful"}
    ledger.committed = dict.fromkeys("abc", at(0))
    ledger.taken_back = {"t"}
    ledger.deliveries = [
        delivery("a", 1),
        delivery("b", 1),
        delivery("c", 1, lease=1),
        delivery("c", 3, read_ct=2),
    ]
    ledger.handled = [
        Handled("a", at(2), "deleted"),
        Handled("b", at(2), "archived"),
        Handled("c", at(4), "deleted"),
    ]
    ledger.waits = [(0.002, "read"), (0.010, "send"), (-0.5, "read_with_poll")]
    return ledger


def faults(
    ledger: Ledger, left: str = "", archived: str = "b", drained: bool = True
) -> tuple[list[str], ...]:
    """Errors, lost, doubled."""
    report = ledger.report(set(left), Counter(archived), drained)
    assert report.even() is (not report.faults())
    return report.errors, report.lost, report.doubled


def test_a_history_without_a_fault(ledger: Ledger) -> None:
    report = ledger.report(set(), Counter("b"))
    assert report.faults() == [] and report.even() and report.slowest == "send"
    assert (report.sent, report.handled, report.wait) == (3, 3, 0.010)


def test_a_long_wait(ledger: Ledger) -> None:
    ledger.waits.append((1.2, "send"))
    report = ledger.report(set(), Counter("b"))
    assert report.faults() == [] and not report.even() and report.even(limit=2)


def test_an_error(ledger: Ledger) -> None:
    ledger.errors.append("read: UndefinedTable")
    assert faults(ledger) == (["read: UndefinedTable"], [], [])


def test_lost(ledger: Ledger) -> None:
    del ledger.handled[0]
    assert faults(ledger) == ([], ["a was committed, and is gone"], [])
    assert faults(ledger, left="a") == ([], ["a lies in the queue, and no read gives it"], [])
    assert faults(ledger, left="a", drained=False) == ([], [], [])


def test_lost_from_the_backlog(ledger: Ledger) -> None:
    ledger.backlog_lost = 2
    assert faults(ledger) == ([], ["2 of the backlog are gone"], [])


def test_lost_from_the_archive(ledger: Ledger) -> None:
    assert faults(ledger, archived="") == ([], ["b was archived, and is not in the archive"], [])


def test_doubled_in_the_archive(ledger: Ledger) -> None:
    assert faults(ledger, archived="bb") == ([], [], ["b is in the archive 2 times"])


def test_delivered_while_leased(ledger: Ledger) -> None:
    ledger.deliveries.insert(0, delivery("a", 1.5, read_ct=2))
    assert faults(ledger) == ([], [], ["a was delivered again 0:00:29.500000 before its lease ended"])


def test_delivered_after_it_was_handled(ledger: Ledger) -> None:
    ledger.deliveries[0] = delivery("a", 0.5, lease=1)
    ledger.deliveries.append(delivery("a", 2.5, read_ct=2))
    assert faults(ledger) == ([], [], ["a was delivered after it had been handled"])


def test_handled_twice(ledger: Ledger) -> None:
    ledger.handled.append(Handled("a", at(2.5), "deleted"))
    assert faults(ledger) == ([], [], ["a was handled 2 times"])


def test_handled_and_still_there(ledger: Ledger) -> None:
    assert faults(ledger, left="a") == ([], [], ["a was handled, and is still there"])


def test_a_lease_that_was_forgotten(ledger: Ledger) -> None:
    """The count of deliveries goes with the message: a second delivery as the first is another message."""
    ledger.deliveries[3] = delivery("c", 3, read_ct=1)
    assert faults(ledger) == ([], [], ["c was delivered with the counts [1, 1]"])


def test_changed_early_or_never_committed(ledger: Ledger) -> None:
    ledger.deliveries[0] = delivery("a", 1, whole=False)
    ledger.deliveries += [delivery("t", 1), delivery("unknown", 1), delivery("doubtful", 1)]
    ledger.committed["b"] = at(1.5)
    assert faults(ledger) == (
        [
            "a was not delivered as it was sent",
            "b was delivered 0:00:00.500000 early",
            "t was taken back, and delivered",
            "unknown was never sent, and delivered",
        ],
        [],
        [],
    )
