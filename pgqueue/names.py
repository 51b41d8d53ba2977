"""Names: of a queue, and of every database object that belongs to one queue.

The rule for queue names is stated in SQL (`pgqueue._check_name`), since callers without Python must meet it;
`tidy` mirrors it for those who print SQL without a database, and a test puts odd names through both.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import BadName

#: Longest queue name in characters, as in pgmq.
MAX_CHARACTERS = 47
#: Longest queue name in bytes once lower-cased: the table `q_NAME` must fit Postgres's 63.
MAX_BYTES = 61
#: Longest name in bytes that is compiled: `NAME$read_grouped_rr`, the longest of its functions, must fit 63.
MAX_COMPILED_BYTES = 47

#: The pgmq whose behaviour this package has.
PGMQ_VERSION = "1.13.1"
#: The official client's wheel, whose pgmq.sql is pgmq's own, and the version of that.
PGMQ_WHEEL = "pgmq==1.1.4"
PGMQ_WHEEL_VERSION = "1.13.0"

#: pgmq's tables beside those of queues, in the order in which rows go into them, with their columns.
LISTS = {
    "meta": "queue_name, is_partitioned, is_unlogged, created_at",
    "notify_insert_throttle": "queue_name, throttle_interval_ms, last_notified_at",
    "topic_bindings": "pattern, queue_name, bound_at",
}

#: The compiled functions of a queue, in the order in which they are made: callees first.
FUNCTIONS = (
    "send",
    "send_batch",
    "floor",
    "lower_floor",
    "due",
    "read",
    "fetch",
    "complete",
    "pop",
    "delete",
    "delete_batch",
    "archive",
    "archive_batch",
    "set_vt",
    "set_vt_batch",
)
#: The compiled functions of a queue that has a FIFO index. `grouped_head` is short: `$read_grouped_head` would not fit.
GROUPED_FUNCTIONS = ("groups", "heads", "read_grouped", "read_grouped_rr", "grouped_head")
#: The compiled functions that differ where a queue is partitioned by message id.
PARTITIONED_FUNCTIONS = ("read", "fetch", "pop")
#: The sequences that hold where live rows begin (sql/templates/compiled/floor.sql.jinja), and when this was last looked
#: up.
FLOOR_SEQUENCES = ("floor_id", "floor_vt", "walk")
#: The sequence that holds when listeners were last notified.
NOTIFY_SEQUENCE = "notified"


@dataclass(frozen=True)
class QueueNames:
    """What belongs to one queue: `name` as it is stored (lower case), and the names made from it."""

    name: str

    @property
    def table(self) -> str:
        return f"q_{self.name}"

    @property
    def archive(self) -> str:
        return f"a_{self.name}"

    def part(self, suffix: str) -> str:
        """Name in schema `pgqueue` of a compiled function or a sequence of this queue."""
        return f"{self.name}${suffix}"

    @property
    def compilable(self) -> bool:
        return len(self.name.encode()) <= MAX_COMPILED_BYTES


def object_name(prefix: str, name: str, suffix: str) -> str:
    """Name of an index: `prefix name suffix`, or with MD5 and a dollar where that exceeds 63 bytes."""
    whole = prefix + name + suffix
    if len(whole.encode()) <= 63:
        return whole
    return prefix + hashlib.md5(name.encode(), usedforsecurity=False).hexdigest() + "$" + suffix


def as_cut(name: str) -> str:
    """A name as Postgres cuts it to 63 bytes."""
    return name.encode()[:63].decode(errors="ignore")


def quoted(name: str) -> str:
    """A name as an identifier in SQL text, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def table_of(queue_name: str) -> str:
    """The table of a queue in SQL text, by any name, also one that is not legal."""
    return f"pgmq.{quoted(f'q_{lower(queue_name)}')}"


def listed(names: Sequence[str]) -> str:
    """The first ten of many names, and how many more there are."""
    more = len(names) - 10
    return ", ".join(names[:10]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, one: str, many: str = "") -> str:
    """1 row, 41,300 rows; `many` where that is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def lower(text: str) -> str:
    """Lower case as Postgres has it: a character for a character, so `İ` is `i`, a final sigma no other."""
    return "".join(character.lower()[0] for character in text)


def tidy(queue_name: str) -> QueueNames:
    """Check a queue's name and give the names made from it.

    Raises:
        BadName: empty or blank, holds `$`, `;`, `--` or `'`, over 47 characters, or over 61 bytes in lower
        case.
    """
    if re.search("[\0\ud800-\udfff]", queue_name):
        raise BadName("queue name holds what is no text in Postgres")
    if not queue_name.strip(" \t\n\v\f\r"):
        raise BadName("queue name cannot be empty or blank")
    if any(mark in queue_name for mark in ("$", ";", "--", "'")):
        raise BadName("queue name contains invalid characters: $, ;, --, or \\'")
    if len(queue_name) > MAX_CHARACTERS:
        raise BadName(f"queue name is too long, maximum length is {MAX_CHARACTERS} characters")
    name = lower(queue_name)
    if len(name.encode()) > MAX_BYTES:
        raise BadName(f"queue name is too long, maximum length is {MAX_BYTES} bytes")
    return QueueNames(name)


def legal_name(text: str) -> str:
    """A legal queue name for any text, always the same one, and another for every other text.

    Letters a to z, digits and underscores stay, so that a name made of those is its own. Every other
    character becomes its code (`a:b` is `a_x3a_b`). What would be longer than 47 characters keeps its
    beginning and ends with a digest of 128 bits. The result suits every pgmq client, can be compiled, and has
    a notification channel.
    """
    plain = re.sub(r"[^a-z0-9_]|_(?=x)|\A\Z", _code, text)
    if len(plain) <= MAX_CHARACTERS and not _DIGEST.search(plain):
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
    ending = "_y" + base64.b32encode(digest).decode().rstrip("=").lower()
    return plain[: MAX_CHARACTERS - len(ending)] + ending


_DIGEST = re.compile("_y[a-z2-7]{26}$")


def _code(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):x}_" if found[0] else "_x_"
