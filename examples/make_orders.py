"""Writes examples/orders.ndjson: the events of a small shop's orders over three days, one JSON object a line.

The shop is made up, and always the same: the random numbers have a seed.

    python examples/make_orders.py           write the file
    python examples/make_orders.py --check   write nothing; fail if the file is not what this program makes
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("orders.ndjson")
SEED = 20261129
ORDERS = 250
OPENS = datetime(2026, 11, 23, 6, 0, tzinfo=timezone.utc)

GOODS = [
    ("TEA-ASSAM-250", "Assam, 250 g", 890),
    ("TEA-SENCHA-100", "Sencha, 100 g", 1250),
    ("TEA-MINT-050", "Pfefferminze, 50 g", 420),
    ("POT-CAST-08", "Cast-iron pot, 0.8 l", 5400),
    ("CUP-PORC-02", "Porcelain cups, pair", 2295),
    ("FILTER-PAPER-100", "Paper filters, ½ l", 375),
    ("HONEY-LIME-500", "Lime honey, 500 g", 1140),
    ("GIFT-BOX-S", "Gift box “little ones”", 290),
]
PEOPLE = [
    ("c-1041", "Anna Lindström", "SE"),
    ("c-1187", "José Álvarez", "ES"),
    ("c-1203", "Miriam O'Connor", "IE"),
    ("c-1260", "Łukasz Wójcik", "PL"),
    ("c-1302", "佐藤 美咲", "JP"),
    ("c-1377", "Zoë Müller", "DE"),
    ("c-1408", "Nguyễn Văn An", "VN"),
    ("c-1455", "Sam Taylor", "GB"),
]
CARRIERS = ["dhl", "postnord", "ups", "self-pickup"]


def order(number: int, dice: random.Random) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """The events of one order in time, from its creation to its delivery, cancellation or refund."""
    customer, name, country = dice.choice(PEOPLE)
    items = [
        {"sku": sku, "name": label, "quantity": dice.randint(1, 4), "cents": cents}
        for sku, label, cents in dice.sample(GOODS, dice.randint(1, 4))
    ]
    total = sum(item["quantity"] * item["cents"] for item in items)
    head = {"order": f"2026-{number:05d}", "customer": customer}
    at = OPENS + timedelta(minutes=dice.randrange(3 * 24 * 60), seconds=dice.randrange(60))

    address = {"name": name, "country": country}
    yield at, {**head, "type": "order.created", "items": items, "ship_to": address, "total_cents": total}
    at += timedelta(seconds=dice.randint(20, 1500))
    if dice.random() < 0.08:
        yield (
            at,
            {**head, "type": "order.cancelled", "reason": dice.choice(["payment failed", "by customer"])},
        )
        return
    card = {"method": dice.choice(["card", "invoice", "wallet"]), "amount_cents": total, "note": None}
    yield at, {**head, "type": "order.paid", "payment": card}
    at += timedelta(minutes=dice.randint(30, 600))
    shipment = {"carrier": dice.choice(CARRIERS), "parcel": f"{dice.randrange(10**10):010d}"}
    yield at, {**head, "type": "order.shipped", "shipment": shipment, "weight_kg": dice.randint(2, 60) / 10}
    at += timedelta(hours=dice.randint(14, 60), minutes=dice.randrange(60))
    if dice.random() < 0.9:
        yield at, {**head, "type": "order.delivered", "signed": dice.random() < 0.4}
    at += timedelta(hours=dice.randint(2, 30), seconds=dice.randrange(3600))
    if dice.random() < 0.32:
        stars = dice.choice([1, 3, 4, 5, 5])
        yield at, {**head, "type": "order.reviewed", "stars": stars, "text": "Merci 🙂" if stars == 5 else ""}


def text() -> str:
    """The whole file, in the order in which the events happened."""
    dice = random.Random(SEED)
    events = [event for number in range(1, ORDERS + 1) for event in order(number, dice)]
    events.sort(key=lambda event: (event[0], event[1]["order"]))
    lines = [json.dumps({"at": at.isoformat(), **body}, ensure_ascii=False) for at, body in events]
    return "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        current = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text()
        if not current:
            print(f"{TARGET.name} is not what {Path(__file__).name} makes", file=sys.stderr)
        return 0 if current else 1
    TARGET.write_text(text(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
