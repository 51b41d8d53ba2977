"""The outbox without an outbox: an order and its message in one SQLAlchemy transaction.

    pip install '.[binary]' sqlalchemy
    export PGQUEUE_DSN=postgresql://…
    pgqueue install
    python examples/outbox_sqlalchemy.py

Either both are committed or neither is. There is no second connection, no table of our own to poll and no
process that carries messages over.
"""

from __future__ import annotations

import os

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from pgqueue import Client


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


def place_order(session: Session, customer: str) -> Order:
    """Add an order, and tell those who pack. Commits nothing: that is the caller's business."""
    order = Order(customer=customer)
    session.add(order)
    session.flush()  # gives the order its id
    Client(session).queue("packing").send({"order": order.id, "customer": customer})
    return order


def main() -> None:
    dsn = os.environ["PGQUEUE_DSN"]
    engine = sa.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        Client(session).create("packing")
        session.commit()

    with Session(engine) as session:
        place_order(session, "Ada")
        session.commit()
    with Session(engine) as session:
        place_order(session, "nobody")
        session.rollback()  # something went wrong: neither order nor message was ever there

    with Client(dsn) as client:
        for message in client.queue("packing").read(qty=10):
            print("to pack:", message.message)
            message.complete()
    engine.dispose()


if __name__ == "__main__":
    main()
