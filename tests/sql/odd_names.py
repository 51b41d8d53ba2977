"""Names that any function may meet, some legal and some not."""

# ruff: noqa: RUF001
from __future__ import annotations

# fmt: off
ODD = [
    "orders", "Orders", "ORDERS", "with-hyphen", "two words", " leading", "trailing ", "dots.in.it", "_",
    "1", "9a", "select", "null", "meta", "q_orders", "a_", "chat:room-7", "foo_default", "foo_old",
    "foo_ready_idx", 'quo"ted', '"', '""', '"""', '"), (a int', "back\\slash", "\\", "E'x'", "it's", "''",
    ";", "a;b", "--", "a--b", "- -", "/* x */", "a/*b", "%", "%%", "%s", "%I", "%1$I", "$", "$1", "a$b",
    "$$", "$body$", "$text$", "{{ q }}", "orders$send", "orders$walk", "'; drop table public.canary; --",
    '"; drop table public.canary', "{}", "\\x41", "new\nline", "tab\there", "cr\rhere", "\n", "\t", "\r",
    "\v", "\f", " ", "   ", " \t\r\n", "", "\x01", "\x1f", "\x1c", "\x85", "\xa0", "\u2003", "\u200b",
    "\u3000", "\ufeff", "a\xa0", "a \n\n\n b", "u\u2028l", "é", "É", "ünï→", "ÜNÏ", "ß", "ẞ", "ﬁ", "İ",
    "I", "ı", "Iı", "ΑΣ", "ας", "ΑΣΑ", "Ǆ", "Ⅷ", "🐘", "قائمة", "\u202eabc", "e\u0301", "n" * 46, "n" * 47,
    "n" * 48, "n" * 58, "n" * 59, "n" * 90, "N" * 47, "é" * 23, "é" * 24, "é" * 30, "é" * 30 + "n",
    "é" * 31, "É" * 30 + "N", "é" * 47, "🐘" * 11, "🐘" * 15, "🐘" * 16, "İ" * 30, "İ" * 47, "n" * 46 + "é",
    "Ⱥ" * 20, "Ⱥ" * 30, "ẞ" * 20,
]
# fmt: on
