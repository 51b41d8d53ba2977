"""SQL as text: the install script, what belongs to one queue, the migrations. Needs no database."""

from __future__ import annotations

import hashlib
import importlib.resources
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment

from .names import (
    FLOOR_SEQUENCES,
    FUNCTIONS,
    GROUPED_FUNCTIONS,
    PARTITIONED_FUNCTIONS,
    PGMQ_VERSION,
    QueueNames,
    tidy,
)
from .sqltext import (
    Fragment,
    Queue,
    dynamic_queue,
    environment,
    ident,
    literal,
    normalise,
    put_breaks,
    static_queue,
    templates_folder,
    without_breaks,
)

#: It waits for other installers, and must then see what they did, whatever isolation the database has by default.
BEGIN = "begin;\nset local transaction_isolation = 'read committed';"
HEADER = "-- Generated from sql/templates by tools/render.py: change those, not this file.\n"


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema's state; frozen once released."""

    id: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of its text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def breaking(self) -> bool:
        """Whether older programs must refuse to work with the schema after it."""
        return self.sql.startswith("-- breaking")


@dataclass(frozen=True)
class _CompiledTemplate:
    """A compiled function as a kind of queue has it: `by_id` is whether of one that is partitioned by message id; None
    where that makes no difference."""

    name: str
    by_id: bool | None = None

    @property
    def suffix(self) -> Fragment:
        return Fragment(self.name)

    @property
    def template(self) -> str:
        return f"compiled/{self.name}.sql.jinja"

    @property
    def grouped(self) -> bool:
        return self.name in GROUPED_FUNCTIONS

    @property
    def sql_flags(self) -> Fragment:
        """The columns grouped and by_id of pgqueue._compiled_texts."""
        return Fragment(
            ", ".join("null" if flag is None else str(flag).lower() for flag in (self.grouped, self.by_id))
        )


def _compiled_templates() -> list[_CompiledTemplate]:
    return [
        _CompiledTemplate(name, by_id)
        for name in (*FUNCTIONS, *GROUPED_FUNCTIONS)
        for by_id in ((False, True) if name in PARTITIONED_FUNCTIONS else (None,))
    ]


def migrations(folder: Path | None = None) -> tuple[Migration, ...]:
    """All migrations, in order. File names are `NNNN_what.sql`, numbered from 1 without a gap."""
    found = []
    for file in sorted((folder or templates_folder() / "migrations").glob("*.sql")):
        number, name = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", file.name).groups()  # type: ignore[union-attr]
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    assert [m.id for m in found] == list(range(1, len(found) + 1)), "migrations are numbered without a gap"
    return tuple(found)


def package_version() -> str:
    """The version of this package."""
    return version("pgqueue")


def pgmq_wheel_sql() -> str | None:
    """pgmq's own SQL, from its official client's wheel (`PGMQ_WHEEL`); None where that is not installed."""
    try:
        return (importlib.resources.files("pgmq") / "sql" / "pgmq.sql").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return None


@cache
def _jinja() -> Environment:
    jinja = environment()
    steps = migrations()
    jinja.globals.update(
        q=dynamic_queue(),
        functions=_compiled_templates(),
        helper_templates=_templates("functions/_*.sql.jinja"),
        function_templates=_templates("functions/pgmq/*.sql.jinja")
        + _templates("functions/pgqueue/*.sql.jinja"),
        migrations=[
            {"id": m.id, "name": literal(m.name), "checksum": literal(m.checksum), "breaking": m.breaking}
            for m in steps
        ],
        schema_version=steps[-1].id,
        package_version=literal(package_version()),
        pgmq_version=literal(PGMQ_VERSION),
    )
    return jinja


def _templates(pattern: str) -> list[str]:
    folder = templates_folder()
    return sorted(str(file.relative_to(folder)) for file in folder.glob(pattern))


def _render(template: str, **context: object) -> str:
    return normalise(_jinja().get_template(template).render(**context))


def install_sql(transaction: bool = True) -> str:
    """The whole installation.

    Args:
        transaction: With `begin` and `commit` around, for `psql -f`; without, for tools that bring their own.
    """
    body = _render("install.sql.jinja")
    return HEADER + (f"{BEGIN}\n\n{body}\ncommit;\n" if transaction else f"\n{body}")


def functions_sql() -> str:
    """The functions part alone, which an upgrade runs after its migrations."""
    return _render("functions.sql.jinja")


def adopt_sql() -> str:
    """The installation over a pgmq that is there; its queues are compiled apart."""
    return _render("adopt.sql.jinja")


def uninstall_sql() -> str:
    """What drops an installation of few queues in one go; `pgqueue uninstall` goes in steps."""
    return _render("uninstall.sql.jinja")


def index_sql(index: str, names: QueueNames) -> str:
    """The statement that makes one of a queue's indexes, without its semicolon. index: a key of sqltext.INDEXES."""
    return put_breaks(_macro("layout/indexes.sql.jinja", index, static_queue(names)))


def condition(kind: str) -> str:
    """What is true of messages m that are `ready`, or `waiting`."""
    return _macro("macros/message.sql.jinja", kind)


def floor_sql(names: QueueNames) -> tuple[str, str]:
    """Where a reader begins: the lowest id of ready messages, the lowest vt of waiting ones. A queue that was never
    compiled has no sequences that say so, and is read from the start."""
    sequences = {part: literal(ident("pgqueue", names.part(part)).text) for part in FLOOR_SEQUENCES}
    q = Queue({part: Fragment(f"to_regclass({sequence})") for part, sequence in sequences.items()})
    return _macro("macros/reader.sql.jinja", "from_id", q), _macro("macros/reader.sql.jinja", "since", q)


def _macro(template: str, name: str, *given: Queue) -> str:
    """What one macro of a template renders to."""
    return str(getattr(_jinja().get_template(template).module, name)(*given)).strip()


def queue_sql(queue_name: str, *, unlogged: bool = False, grouped: bool = False) -> str:
    """What one queue is made of, with its names put in: tables, indexes, compiled functions.

    Raises:
        BadName: `queue_name` is not a legal name.
    """
    names = tidy(queue_name)
    functions = [f for f in _compiled_templates() if (grouped or not f.grouped) and not f.by_id]
    if not names.compilable:
        functions = []
    q = static_queue(names)
    text = _render(
        "queue.sql.jinja",
        q=q,
        queue_name=without_breaks(literal(queue_name)),
        unlogged=unlogged,
        grouped=grouped,
        functions=functions,
    )
    return put_breaks(text)
