"""moto's S3 server at a free port of this machine: `python s3_server.py [PAUSE_SECONDS]`.

It says its port once it answers, and ends when its input does: also if whoever started it is killed.
moto looks whether a key is there, and then puts it: on a busy machine, two who make a key that nobody
else may have made are both told that they did. S3 has no such gap, so one request is answered at a time.
"""

import functools
import logging
import sys
import threading
import time

import moto.backends
from moto.s3.models import S3Backend
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

_turn = threading.RLock()


def main(pause_seconds: str = "0") -> None:
    """Serve; each key is put `pause_seconds` after it was looked for."""
    _spare_each_request()
    # Both begin once the request has been read, so that no slow client keeps the others waiting.
    for name in ("_bucket_response", "_key_response"):
        setattr(S3Response, name, _in_turn(getattr(S3Response, name)))
    if pause := float(pause_seconds):
        S3Backend.put_object = _after(pause, S3Backend.put_object)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)  # noqa: T201 - a program, not a test
    sys.stdin.read()


def _spare_each_request() -> None:
    """Leave out what moto does anew for each request: it lists its own folder twice, and logs."""
    modules = [*moto.backends.list_of_moto_modules()]
    moto.backends.list_of_moto_modules = lambda: modules
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


def _in_turn(method):
    @functools.wraps(method)
    def answered(*arguments, **named):
        with _turn:
            return method(*arguments, **named)

    return answered


def _after(seconds, method):
    @functools.wraps(method)
    def paused(*arguments, **named):
        time.sleep(seconds)
        return method(*arguments, **named)

    return paused


if __name__ == "__main__":
    main(*sys.argv[1:])
