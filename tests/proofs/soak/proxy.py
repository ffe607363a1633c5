"""A way to an object store on which requests are refused, lost, answered in part, or late."""

import asyncio
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress

from proofs.soak.fates import calm

_MAX_HEAD = 1024 * 1024
_DELAYS = (0.1, 0.3, 1.0)
_FOR_EVER = 3600


class Proxy:
    """Passes HTTP on to `port` of this machine, byte for byte, but for what meets another fate."""

    def __init__(self, port, fate=calm):
        """`fate` is asked of each request; see `fates`."""
        self.fate = fate
        """May be set to another at any time."""
        self.counts = Counter()
        """How many requests there were, and how they fared."""
        self._upstream = port
        self._connections = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        self.port = 0
        self.open()
        return self

    def __exit__(self, *_):
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self):
        """Listen, at the same port as before."""
        starting = asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_MAX_HEAD)
        self._server = self._do(starting)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self):
        """Listen no more, and let go of every connection."""
        self._do(self._end())

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def _do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _end(self):
        self._server.close()
        while self._connections:
            for task in self._connections:
                task.cancel()
            await asyncio.sleep(0.01)

    async def _serve(self, reader, writer):
        """One connection of a client, and the one that belongs to it on the other side."""
        # The loop alone would not keep a task whose client is gone.
        self._connections.add(task := asyncio.current_task())
        with suppress(OSError, EOFError, asyncio.CancelledError):
            inside = await asyncio.open_connection("127.0.0.1", self._upstream, limit=_MAX_HEAD)
            try:
                while await self._pass_on(reader, writer, *inside):
                    pass
            finally:
                inside[1].close()
        writer.close()
        self._connections.discard(task)

    async def _pass_on(self, reader, writer, inside_reader, inside_writer):
        """One request and its answer; whether another may come on this connection."""
        head, body = await _message(reader)
        self.counts["requests"] += 1
        fate = self.fate(head.partition(b"\r\n")[0].decode())
        if isinstance(fate, bytes):
            await _send(writer, fate)
            return True
        self.counts[fate] += 1
        if fate == "silent":
            await asyncio.sleep(_FOR_EVER)
        if fate == "throttled":
            await _send(writer, _REFUSALS[self.counts[fate] % len(_REFUSALS)])
            return True
        if fate == "dropped":
            _reset(writer)
            return False
        if fate == "slow":
            await asyncio.sleep(_DELAYS[self.counts[fate] % len(_DELAYS)])
        await _send(inside_writer, head + body)
        answer_head, answer_body = await _message(inside_reader, is_answer_to=head)
        if fate == "unanswered":
            _reset(writer)
            return False
        if fate == "disowned":
            await _send(writer, _GATEWAY_TIMEOUT)
            return True
        if fate == "cut":
            answer = answer_head + answer_body
            await _send(writer, answer[: len(answer_head) + len(answer_body) // 2 - 3])
            _reset(writer)
            return False
        await _send(writer, answer_head + answer_body)
        return b"connection: close" not in answer_head.lower()


async def _message(reader, *, is_answer_to=None):
    """The head and the body of a request, or of an answer, as they are."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if is_answer_to is not None:
        status = head.split(b" ", 2)[1]
        if is_answer_to.startswith(b"HEAD ") or status in (b"204", b"304"):
            return head, b""
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        return head, await _chunks(reader)
    if is_answer_to is not None and b"content-length" not in fields:
        return head, await reader.read()
    return head, await reader.readexactly(int(fields.get(b"content-length", 0)))


async def _chunks(reader):
    body = b""
    while True:
        line = await reader.readline()
        chunk = await reader.readexactly(int(line.partition(b";")[0], 16) + 2)
        body += line + chunk
        if len(chunk) == 2:
            return body


async def _send(writer, data):
    writer.write(data)
    await writer.drain()


def _reset(writer):
    """Close at once; the other side is told of an error, not of an end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def answer(status, code):
    """An answer of a server that refuses."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


_GATEWAY_TIMEOUT = answer("504 Gateway Timeout", "GatewayTimeout")
_REFUSALS = [answer("503 Slow Down", "SlowDown"), answer("429 Too Many Requests", "ServerBusy")]
