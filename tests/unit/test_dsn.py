"""Where a server's address comes from, and what of it may be shown."""

from __future__ import annotations

import pytest

from pgqueue.dsn import cannot_connect, find, parameters, without_secrets
from pgqueue.errors import BadDsn, NoServer


@pytest.mark.parametrize(
    ("given", "environ", "found"),
    [
        ("a", {"PGQUEUE_DSN": "b", "DATABASE_URL": "c"}, ("a", "--dsn")),
        (None, {"PGQUEUE_DSN": "b", "DATABASE_URL": "c"}, ("b", "PGQUEUE_DSN")),
        ("", {"PGQUEUE_DSN": "", "DATABASE_URL": "c", "PGHOST": "d"}, ("c", "DATABASE_URL")),
        (None, {"PGHOST": "d"}, ("", "PGHOST")),
        (None, {"PGHOSTADDR": "d"}, ("", "PGHOSTADDR")),
        (None, {"PGSERVICE": "d"}, ("", "PGSERVICE")),
        (None, {"PGDATABASE": "d"}, ("", "PGDATABASE")),
        ("embedded:", {}, ("embedded:", "--dsn")),
    ],
)
def test_the_first_that_names_a_server(
    given: str | None, environ: dict[str, str], found: tuple[str, str]
) -> None:
    assert find(given, environ) == found


@pytest.mark.parametrize(
    "environ", [{}, {"PGUSER": "x"}, {"PGPORT": "1"}, {"PGPASSWORD": "x"}, {"PGHOST": ""}]
)
def test_nothing_is_guessed(environ: dict[str, str]) -> None:
    with pytest.raises(NoServer, match="embedded:"):
        find(None, environ)


@pytest.mark.parametrize(
    ("dsn", "known"),
    [
        ("", {}),
        (
            "postgresql://u:p%40%2F@h:5/d",
            {"user": "u", "password": "p@/", "host": "h", "port": "5", "dbname": "d"},
        ),
        ("postgres://u@h,i/d", {"user": "u", "host": "h,i", "port": ",", "dbname": "d"}),
        ("postgresql:///d?host=/tmp/x&user=u", {"host": "/tmp/x", "dbname": "d", "user": "u"}),
        ("postgresql:///d?user=me@srv", {"dbname": "d", "user": "me@srv"}),
        ("postgresql://[::1]:5/d", {"host": "::1", "port": "5", "dbname": "d"}),
        ("postgresql+asyncpg://h/d", {"host": "h", "dbname": "d"}),
        (" host=h options='-c x=1' ", {"host": "h", "options": "-c x=1"}),
    ],
)
def test_every_part_is_honoured(dsn: str, known: dict[str, str]) -> None:
    """Case 95."""
    assert parameters(dsn) == known


@pytest.mark.parametrize(
    "dsn",
    [
        "hush",
        "postgresql//u:hush@h/d",
        "postgresql://u:hu@sh@h/d",
        "postgresql://u:hu/sh@h/d",
        "postgresql://u:12/sh@h/d",
        "postgresql://u:%hush@h/d",
        "password=hush sh=hush",
        "password='hush",
        "mysql://u:hush@h/d",
        "postgresql://u:hush@h/d?hush=1",
    ],
)
def test_a_dsn_that_is_none_is_never_repeated(dsn: str) -> None:
    with pytest.raises(BadDsn) as caught:
        parameters(dsn, "DATABASE_URL")
    assert str(caught.value).startswith("DATABASE_URL ")
    assert "hu" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_parameter_of_another_program_is_named() -> None:
    with pytest.raises(BadDsn, match="pgbouncer"):
        parameters("postgresql://u@h/d?pgbouncer=true")


def test_passwords_are_taken_out_of_any_text() -> None:
    text = "tried hu/sh, hu%2Fsh and other"
    assert without_secrets(text, "postgresql://u:hu%2Fsh@h/d", {}) == "tried ****, **** and other"
    assert without_secrets(text, "postgresql://h/d", {"PGPASSWORD": "hu/sh"}) == "tried ****, **** and other"
    assert without_secrets(text, "postgresql://h/d?sslpassword=other", {}) == "tried hu/sh, hu%2Fsh and ****"
    assert without_secrets(text, "postgresql://h/d", {}) == text


def test_many_hosts_make_one_line() -> None:
    said = (
        "connection failed: b refused\n\tIs the server running?\nMultiple connection attempts failed:\n"
        "- host: 'a', port: '1': a refused\n\tIs it?\n- host: 'b', port: '2': b refused\n"
    )
    error = cannot_connect(Exception(said), "host=a,b", {})
    assert str(error) == "host: 'a', port: '1': a refused; host: 'b', port: '2': b refused"
    assert str(cannot_connect(Exception("no\n\tIs it?\n"), "host=a", {})) == "no"
