"""A service on this machine that answers as a test tells it to, over real connections."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What came in."""

    path: str
    headers: dict[str, str]
    body: Any
    connection: int
    """Which of the connections it came by, counted from 0."""


class Service:
    """Answers each request by `answer`, or by the next of `failures` while there are any.

    An answer is what JSON it sends, or (status, headers, bytes); None closes the connection without one.
    """

    def __init__(self, answer):
        self.answer = answer
        self.failures = []
        self.requests = []
        self._n_connections = 0
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # The head and the body go out together; else the second waits for an acknowledgement.
            wbufsize = -1

            def setup(self):
                super().setup()
                with service._lock:
                    self.number = service._n_connections
                    service._n_connections += 1

            def do_POST(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, json.loads(content), self.number)
                with service._lock:
                    service.requests.append(request)
                    failure = service.failures.pop(0) if service.failures else service.answer
                given = failure(request) if callable(failure) else failure
                if given is None:
                    self.close_connection = True
                    return
                if not isinstance(given, tuple):
                    given = (200, {}, json.dumps(given).encode())
                status, sent, body = given
                self.send_response(status)
                self.close_connection = sent.get("Connection") == "close"
                for name, value in {"Content-Length": str(len(body)), **sent}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def failing(status, text="no", **headers):
    """An answer with that status; the names of headers have _ for -."""
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, text.encode()
