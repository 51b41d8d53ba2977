"""Which exception of ours stands for which SQLSTATE."""

from __future__ import annotations

import psycopg
import pytest

from pgqueue import errors
from pgqueue.names import FLOOR_SEQUENCES, NOTIFY_SEQUENCE, QueueNames
from pgqueue.sqlstate import from_server


class Diag:
    def __init__(self, message: str, hint: str = "") -> None:
        self.message_primary = message
        self.message_hint = hint


def server_error(sqlstate: str | None, message: str, hint: str = "") -> BaseException:
    class FromServer(Exception):
        diag = Diag(message, hint)

    error = FromServer(message)
    error.sqlstate = sqlstate  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("sqlstate", "message", "kind"),
    [
        ("42P01", 'queue "nope" does not exist', errors.NoSuchQueue),
        ("42P01", 'relation "pgmq.q_nope" does not exist', errors.NoSuchQueue),
        ("42P01", 'relation "pgmq.meta" does not exist', errors.NotInstalled),
        ("42P01", 'relation "somebody.else" does not exist', errors.Refused),
        ("P0001", 'queue "nope" does not exist', errors.NoSuchQueue),
        ("P0001", 'Queue "nope" does not exist. Create it first using pgmq.create()', errors.NoSuchQueue),
        ("P0001", "queue name is too long, maximum length is 47 characters", errors.BadName),
        ("P0001", "queue_name cannot be NULL or empty", errors.BadName),
        ("P0001", "msgs cannot be NULL or empty", errors.Refused),
        ("22004", "queue name cannot be null", errors.BadName),
        ("22004", "delay cannot be null", errors.BadValue),
        ("42710", 'queue name "Foo" collides with queue "foo"', errors.BadName),
        ("42710", "something is there already", errors.Refused),
        ("3F000", 'schema "pgmq" does not exist', errors.NotInstalled),
        ("3F000", 'schema "pgqueue" does not exist', errors.NotInstalled),
        ("3F000", 'schema "other" does not exist', errors.Refused),
        ("42883", "function pgmq.pop(text, integer) does not exist", errors.TooOld),
        ("42883", "function lower(point) does not exist", errors.Refused),
        ("42501", "permission denied for schema pgmq", errors.NotAllowed),
        ("22003", "integer out of range", errors.BadValue),
        ("22P02", "invalid input syntax for type json", errors.BadMessage),
        ("22P05", "unsupported Unicode escape sequence", errors.BadMessage),
        ("22P02", 'invalid input syntax for type interval: "x"', errors.BadValue),
        ("40001", "could not serialize access", errors.Conflict),
        ("40P01", "deadlock detected", errors.Conflict),
        ("57014", "canceling statement due to statement timeout", errors.TimedOut),
        ("55P03", "canceling statement due to lock timeout", errors.TimedOut),
        ("57P01", "terminating connection due to administrator command", errors.ConnectionLost),
        ("08006", "connection failure", errors.ConnectionLost),
        ("28P01", "password authentication failed", errors.CannotConnect),
        ("53300", "sorry, too many clients already", errors.CannotConnect),
        ("53100", "could not extend file: No space left on device", errors.Refused),
        ("25006", "cannot execute INSERT in a read-only transaction", errors.Refused),
    ],
)
def test_every_sqlstate_has_its_exception(sqlstate: str, message: str, kind: type[Exception]) -> None:
    ours = from_server(server_error(sqlstate, message))
    assert type(ours) is kind
    assert ours.sqlstate == sqlstate
    assert "\n" not in str(ours)


def test_pgmqs_own_text_is_said_our_way() -> None:
    assert str(from_server(server_error("42P01", 'relation "pgmq.a_my queue" does not exist'))) == (
        'queue "my queue" does not exist'
    )


@pytest.mark.parametrize("part", [*FLOOR_SEQUENCES, NOTIFY_SEQUENCE])
def test_a_queue_dropped_in_the_middle_of_a_call_is_no_queue(part: str) -> None:
    """Only what has a dollar in its name belongs to one queue."""
    gone = f'relation "pgqueue.{QueueNames("my queue").part(part)}" does not exist'
    error = from_server(server_error("42P01", gone))
    assert type(error) is errors.NoSuchQueue
    assert str(error) == 'queue "my queue" does not exist'
    ours = server_error("42P01", 'relation "pgqueue.policy" does not exist')
    assert type(from_server(ours)) is errors.NotInstalled


def test_what_the_server_said_is_kept_on_one_line() -> None:
    assert str(from_server(server_error("42501", "permission\n denied"))) == "permission denied"


def test_missing_rights_have_a_remedy() -> None:
    for what, remedy in (
        ("database app", "needs CREATE"),
        ("table q_orders", "pgqueue doctor"),
        ("large object 5", ""),
    ):
        assert remedy in str(from_server(server_error("42501", f"permission denied for {what}")))


def test_the_advice_to_adopt_makes_a_foreign_installation() -> None:
    ours = from_server(server_error("42710", "the extension pgmq is installed", "Run: pgqueue adopt"))
    assert type(ours) is errors.ForeignInstallation
    assert str(ours) == "the extension pgmq is installed. Run: pgqueue adopt"


def test_errors_without_a_sqlstate() -> None:
    lost = from_server(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert type(lost) is errors.ConnectionLost
    assert "not committed" in str(lost)
    assert type(from_server(psycopg.DataError("cannot contain NUL"))) is errors.BadValue


def test_every_exception_is_of_one_tree_and_says_something() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert len(kinds) > 10
    for kind in kinds:
        assert issubclass(kind, errors.PgqueueError)
        assert str(kind()) == (kind.__doc__ or "").strip()
        assert str(kind("said")) == "said"
