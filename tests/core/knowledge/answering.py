"""A service on this machine that speaks as OpenAI's and Anthropic's do, and answers as it is told."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service:
    """What it answers next, and what it was asked.

    An answer is what a model says (a text or a mapping), a status, or a function that answers itself.
    """

    def __init__(self):
        self.answers = []
        self.requests = []
        self.usual = {"facts": []}
        self.closed = threading.Event()

    def next(self):
        return self.answers.pop(0) if self.answers else self.usual


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service = None

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.service.requests.append((self.path, dict(self.headers), body))
        answer = self.service.next()
        if callable(answer):
            answer(self)
        elif isinstance(answer, int):
            self.say(answer, {"error": {"message": f"status {answer}"}})
        else:
            self.say(200, spoken(self.path, answer))

    def say(self, status, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Silence."""


def spoken(path, answer):
    """An answer in the form of the one service or the other, with what it took."""
    if path.endswith("/chat/completions"):
        text = answer if isinstance(answer, str) else json.dumps(answer)
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 70, "completion_tokens": 9}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    if isinstance(answer, str):
        content = [{"type": "text", "text": answer}]
    else:
        content = [{"type": "tool_use", "id": "t", "name": "answer", "input": answer}]
    usage = {"input_tokens": 70, "output_tokens": 9}
    return {"content": content, "stop_reason": "tool_use", "usage": usage}


def html(handler):
    handler.say(200, b"<html><body>502 Bad Gateway</body></html>")


def nothing_of_the_kind(handler):
    handler.say(200, {"ok": True})


def limited(handler):
    handler.say(429, {"error": {"message": "slow down"}}, Retry_After="0")


def limited_for_long(handler):
    handler.say(429, {"error": {"message": "tomorrow"}}, Retry_After="3600")


def dropped(handler):
    handler.close_connection = True
    handler.connection.close()


def slow(handler):
    handler.service.closed.wait(60)


@contextmanager
def served():
    """A service at a URL, until the block ends."""
    service = Service()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (Handler,), {"service": service}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        service.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
