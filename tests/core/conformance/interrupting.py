"""What others do in the middle of a call."""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor


def before(monkeypatch, owner, name, work):
    """Have `work` done before the next call of that function of `owner`, once."""
    real = getattr(owner, name)

    async def awaited(*args, **options):
        monkeypatch.setattr(owner, name, real)
        await work()
        return await real(*args, **options)

    def called(*args, **options):
        monkeypatch.setattr(owner, name, real)
        # In a thread of its own, since nothing is awaited here.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, work()).result()
        return real(*args, **options)

    monkeypatch.setattr(owner, name, awaited if inspect.iscoroutinefunction(real) else called)
