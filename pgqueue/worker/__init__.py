"""The worker: takes messages, has them handled, finishes them. One engine on asyncio."""
