"""SQL text: fragments that may enter a template, and the Jinja environment that lets nothing else in.

A value reaches a template only as a `Fragment`. Jinja's HTML escaping serves as the taint check: a
fragment calls itself safe (`__html__`), a macro's result is marked safe by Jinja, and everything else is
refused by `only_sql`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .errors import TemplateError
from .names import FLOOR_SEQUENCES, FUNCTIONS, GROUPED_FUNCTIONS, QueueNames, object_name, quoted


@dataclass(frozen=True)
class Fragment:
    """A piece of SQL that is safe to print as it stands."""

    text: str

    def __html__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


def ident(*parts: str) -> Fragment:
    """An identifier, qualified if several parts are given, quoted where it must be: `pgmq.q_orders`,
    `pgmq."q_Odd"`.

    As Postgres's `%I` prints it; but for key words, which no object of ours is named by.
    """
    return Fragment(".".join(map(_quoted, parts)))


def _quoted(part: str) -> str:
    return part if re.fullmatch("[a-z_][a-z0-9_]*", part) else quoted(part)


def literal(value: str) -> Fragment:
    """A quoted string literal, as Postgres's `%L` prints it."""
    if "\0" in value:
        raise TemplateError("a string literal cannot hold a zero byte")
    quoted = "'" + value.replace("'", "''").replace("\\", "\\\\") + "'"
    return Fragment(f"E{quoted}" if "\\" in value else quoted)


def name(word: str) -> Fragment:
    """A plain word of ours that needs no quotes: a variable, a parameter, a keyword."""
    if not re.fullmatch(r"[a-z_][a-z0-9_.]*(\[\d+\])?", word):
        raise TemplateError(f"not a plain word: {word!r}")
    return Fragment(word)


def placeholder(number: int) -> Fragment:
    """A parameter of a statement: `$1`."""
    return Fragment(f"${number}")


class Queue:
    """The names of a queue as templates print them: `{{ q.table }}`, `{{ q.send }}`, `{{ q.walk }}`.

    Two kinds: `static_queue` prints quoted names, `dynamic_queue` prints the arguments of `format()`,
    which the server fills with the same names in the same order (`format_arguments`).
    """

    def __init__(self, fragments: Mapping[str, Fragment], arguments: str = "") -> None:
        self._fragments = dict(fragments)
        self.arguments = Fragment(arguments)

    def __getattr__(self, name: str) -> Fragment:
        try:
            return self._fragments[name]
        except KeyError:
            raise AttributeError(name) from None


INDEXES = {
    "ready_index": ("q_", "_ready_idx"),
    "waiting_index": ("q_", "_waiting_idx"),
    "fifo_index": ("q_", "_fifo_idx"),
    "msg_id_index": ("q_", "_msg_id_idx"),
    "archive_index": ("archived_at_idx_", ""),
}


#: A line break inside a name must not be indented with the text around it, so a surrogate stands for it in a
#: template, which no name holds; `put_breaks` has the last word.
_BREAKS = {
    ord(character): chr(0xDC00 + ord(character) % 256) for character in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
}
_PUT_BREAKS = {ord(stand_in): character for character, stand_in in _BREAKS.items()}


def without_breaks(fragment: Fragment) -> Fragment:
    """The fragment with stand-ins for its line breaks."""
    return Fragment(fragment.text.translate(_BREAKS))


def put_breaks(text: str) -> str:
    """A rendered text with line breaks for their stand-ins."""
    return text.translate(_PUT_BREAKS)


def static_queue(names: QueueNames) -> Queue:
    """A queue whose names are printed as they are, but for line breaks (`put_breaks`)."""
    fragments = {"table": ident("pgmq", names.table), "archive_table": ident("pgmq", names.archive)}
    for suffix in (*FUNCTIONS, *GROUPED_FUNCTIONS):
        fragments[suffix] = ident("pgqueue", names.part(suffix))
    for suffix in FLOOR_SEQUENCES:
        sequence = ident("pgqueue", names.part(suffix))
        fragments[suffix] = Fragment(f"{literal(sequence.text)}::regclass")
    fragments["table_text"] = literal(fragments["table"].text)
    for index, (prefix, suffix) in INDEXES.items():
        fragments[index] = ident(object_name(prefix, names.name, suffix))
    return Queue({part: without_breaks(fragment) for part, fragment in fragments.items()})


def dynamic_queue() -> Queue:
    """A queue whose names are arguments of `format()`: `pgmq.%1$I`, `pgqueue.%3$I`, `%22$L::regclass`.

    `arguments` is the list to give to `format()` after the text, in terms of `v_name`, the queue's name in
    lower case.
    """
    fragments = {"table": Fragment("pgmq.%1$I"), "archive_table": Fragment("pgmq.%2$I")}
    arguments = ["'q_' || v_name", "'a_' || v_name"]

    def argument(expression: str) -> int:
        arguments.append(expression)
        return len(arguments)

    for suffix in (*FUNCTIONS, *GROUPED_FUNCTIONS):
        number = argument(f"v_name || '${suffix}'")
        fragments[suffix] = Fragment(f"pgqueue.%{number}$I")
    for suffix in FLOOR_SEQUENCES:
        number = argument(f"'pgqueue.' || quote_ident(v_name || '${suffix}')")
        fragments[suffix] = Fragment(f"%{number}$L::regclass")
    number = argument("'pgmq.' || quote_ident('q_' || v_name)")
    fragments["table_text"] = Fragment(f"%{number}$L")
    for index, (prefix, suffix) in INDEXES.items():
        number = argument(f"pgqueue._object_name({literal(prefix)}, v_name, {literal(suffix)})")
        fragments[index] = Fragment(f"%{number}$I")
    return Queue(fragments, ", ".join(arguments))


def only_sql(value: object) -> object:
    """Let fragments, integers and what macros return into the text, and nothing else."""
    if isinstance(value, (Fragment, Markup)) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TemplateError(f"a template may print fragments and integers only, not {value!r}")


def templates_folder() -> Path:
    """Where the templates lie: beside this file in a wheel, at the top of the tree in a checkout."""
    packaged = Path(__file__).parent / "_templates"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "sql" / "templates"


def environment(folder: Path | None = None) -> Environment:
    """The Jinja environment of every template."""
    jinja = Environment(
        loader=FileSystemLoader(folder or templates_folder()),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=only_sql,
    )
    jinja.globals.update(name=name, placeholder=placeholder)
    return jinja


def normalise(text: str) -> str:
    """No trailing blanks, at most one blank line in a row, one newline at the end."""
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n") + "\n"
