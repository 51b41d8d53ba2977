"""A FastAPI service that answers at once and leaves the work to a queue.

    pip install '.[binary]' 'sqlalchemy[asyncio]' fastapi uvicorn
    export PGQUEUE_DSN=postgresql://…
    pgqueue install
    uvicorn --app-dir examples fastapi_send:app
    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"customer": "Ada"}'

The order and its message are committed together, before the answer goes out.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pgqueue import AsyncClient


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "web_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


class NewOrder(BaseModel):
    customer: str


class Packing(BaseModel):
    """What a message of the queue says."""

    order: int
    customer: str


dsn = os.environ["PGQUEUE_DSN"]
engine = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
new_session = async_sessionmaker(engine, expire_on_commit=False)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
        await AsyncClient(conn).create("packing")
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(order: NewOrder) -> dict[str, int]:
    async with new_session.begin() as session:  # committed at its end, before the answer goes out
        row = Order(customer=order.customer)
        session.add(row)
        await session.flush()
        packing = AsyncClient(session).queue("packing", Packing)
        await packing.send(Packing(order=row.id, customer=row.customer))
    return {"order": row.id}


@app.get("/orders/waiting")
async def waiting() -> dict[str, int]:
    async with new_session() as session:
        count = await session.scalar(sa.select(sa.func.count()).select_from(Order))
        metrics = await AsyncClient(session).queue("packing").metrics()
    return {"orders": count or 0, "to pack": metrics.queue_length}
