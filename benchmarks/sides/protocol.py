"""How a side is asked: one JSON object a line on its input, one on its output."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[..., Any]


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer requests `{"op": name, ...arguments}` until the input ends.

    An answer is `{"result": ...}` or `{"error": "Type: message"}`; an error ends nothing.
    """
    # A library that prints would break the answers: what it prints goes to the error stream.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": handlers[request.pop("op")](**request)}
        except BaseException as error:  # noqa: BLE001 - engines panic with a BaseException of theirs
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
