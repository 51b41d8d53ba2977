"""Every deliberate difference between pgmq and pgqueue, each with its reason."""

from __future__ import annotations

CATALOGUE: dict[str, tuple[str | None, str | None, str]] = {
    # what: (pgmq's, ours, why); None: absent
    "table notify_insert_throttle": (
        "r unlogged",
        "r logged",
        "an unlogged throttle table is empty after a crash, and NOTIFY stays silent for good",
    ),
}
