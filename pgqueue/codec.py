"""How bodies become JSON text and Python values again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from importlib import import_module
from typing import Any, Generic, TypeVar
from uuid import UUID

from pgqueue.errors import BadMessage

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

T = TypeVar("T")
U = TypeVar("U")

_TO_ZEROS = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_LONG = b"0" * 20


class JsonText(str):
    """Text that is JSON already: it is sent as it stands, digit for digit."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """dumps makes JSON text of a body, loads a body of JSON text. Either may raise what it likes."""

    dumps: Callable[[T], str]
    loads: Callable[[str], T]

    def encode(self, value: T) -> str:
        """The JSON text of a body. Raises BadMessage."""
        try:
            return self.dumps(value)
        except Exception as error:
            raise BadMessage(f"the message is not JSON: {error}") from error

    def decode(self, text: str | None) -> T:
        """A body out of its JSON text; SQL null counts as JSON null. Raises BadMessage."""
        try:
            return self.loads("null" if text is None else text)
        except Exception as error:
            raise BadMessage(f"a message cannot be decoded: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


# --- JSON -----------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """What JSON has no form for, as something that it has one for: records, enums, UUIDs."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json")
    if hasattr(value, "__struct_fields__"):  # msgspec
        return {name: getattr(value, name) for name in value.__struct_fields__}
    raise TypeError(f"no JSON form for {type(value).__name__}")


def json_dumps(value: Any) -> str:
    """JSON text by Python's own json; JsonText stays as it is. Raises TypeError, ValueError."""
    if isinstance(value, JsonText):
        return value
    return json.dumps(value, allow_nan=False, default=plain)


def json_loads(text: str) -> Any:
    """A value by Python's own json. Integers keep all their digits."""
    try:
        return json.loads(text)
    except ValueError:  # jsonb's integers may be longer than Python reads (4300 digits)
        return json.loads(text, parse_int=Decimal)


def fast_dumps(value: Any) -> str:
    """As json_dumps, by orjson wherever both say the same."""
    if isinstance(value, JsonText):
        return value
    options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    try:
        text = orjson.dumps(value, plain, options)
    except TypeError:  # integers of more than 64 bits, keys that are no strings, or no JSON at all
        return json_dumps(value)
    return json_dumps(value) if b"null" in text else text.decode()  # null may have been a NaN


def fast_loads(text: str) -> Any:
    """As json_loads, by orjson wherever both say the same."""
    if len(text) >= 20 and _LONG in text.encode().translate(_TO_ZEROS):
        return json_loads(text)  # orjson makes a float of a long integer
    return orjson.loads(text)


PLAIN: Codec[Any] = Codec(json_dumps, json_loads)
"""Python's own json."""
JSON: Codec[Any] = Codec(fast_dumps, fast_loads) if orjson is not None else PLAIN
"""orjson where it is installed, else json; both give the same values."""
AS_TEXT: Codec[Any] = Codec(json_dumps, JsonText)
"""Reads JSON as text, digit for digit."""


def _bytes_dumps(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _bytes_loads(text: str) -> bytes:
    return base64.b64decode(json.loads(text), validate=True)


BYTES: Codec[bytes] = Codec(_bytes_dumps, _bytes_loads)
"""Bodies are bytes and come back byte for byte; in the database they are base64 in a JSON string."""


# --- bodies of a type -----------------------------------------------------------------------------


def codec_of(body: Codec[T] | type[T] | Callable[[Any], T], json_codec: Codec[Any] = JSON) -> Codec[T]:
    """The codec for bodies of a type: a pydantic model, a msgspec Struct, a dataclass; or of any function.

    A dataclass gets its fields as JSON has them; a function gets the JSON value. A Codec is taken as it is.
    """
    if isinstance(body, Codec):
        return body
    return Codec(json_codec.dumps, _loads_of(body, json_codec.loads))


def _loads_of(body: Any, loads: Callable[[str], Any]) -> Callable[[str], Any]:
    if hasattr(body, "model_validate_json"):
        return body.model_validate_json  # type: ignore[no-any-return]
    if hasattr(body, "__struct_fields__"):
        decoder = import_module("msgspec.json").Decoder(body)
        return decoder.decode  # type: ignore[no-any-return]
    if isinstance(body, type) and is_dataclass(body):
        return lambda text: body(**loads(text))
    return lambda text: body(loads(text))
