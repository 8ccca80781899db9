"""Requests that a server refuses: bytes on a connection, and the status of the answer."""

import dataclasses
import json

PREDICT = "/v1/models/toy:predict"


@dataclasses.dataclass(frozen=True)
class Bad:
    """A request.

    Attributes:
      data: as sent.
      status: of the answer.
      words: of its message.
      half_close: whether the client then closes its side.
    """

    data: bytes
    status: int
    words: str = ""
    half_close: bool = False


def raw(method="POST", path=PREDICT, body=b"", kind="application/json", **headers):
    """A request; a header of None is left out."""
    lines = {"host": "127.0.0.1", "content-length": len(body), "content-type": kind}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{n}: {value}\r\n" for n, value in lines.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def body(value):
    return raw(body=value if isinstance(value, bytes) else json.dumps(value).encode())


def inputs(*values, **fields):
    return body({"inputs": [*values], **fields})


def chunked(data):
    pieces = (data[at : at + 65536] for at in range(0, len(data), 65536))
    parts = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = raw(content_length=None, transfer_encoding="chunked")
    return head + parts + b"0\r\n\r\n"


def path(name, method="GET"):
    return raw(method, name, kind=None)


MEGABYTES = b'{"inputs": ["' + b"a" * 10**7 + b'"]}'
GOOD = inputs("one two")
BAD = {
    "an empty body": Bad(body(b""), 400, "not JSON"),
    "a word": Bad(body(b"hello"), 400, "not JSON"),
    "cut JSON": Bad(body(b'{"inputs": ["a"'), 400, "not JSON"),
    "two values": Bad(body(b'{"inputs": ["a"]} {}'), 400, "not JSON"),
    "deep nesting": Bad(body(b"[" * 10**5), 400, "nested too deeply"),
    "a number of 10,000 digits": Bad(body(b'{"inputs": [' + b"9" * 10**4 + b"]}"), 400, "digits"),
    "broken UTF-8": Bad(body(b'{"inputs": ["\xff"]}'), 400, "not UTF-8 after 13 bytes"),
    "UTF-16": Bad(body('{"inputs": ["a"]}'.encode("utf-16")), 400, "not UTF-8"),
    "a list": Bad(body(["a"]), 422, "a list where an object"),
    "a number": Bad(body(3), 422, "an object"),
    "null": Bad(body(None), 422, "an object"),
    "no inputs": Bad(body({}), 422, "'inputs'"),
    "inputs null": Bad(body({"inputs": None}), 422, "a list"),
    "inputs a text": Bad(body({"inputs": "a"}), 422, "a list"),
    "inputs an object": Bad(body({"inputs": {"text": "a"}}), 422, "a list"),
    "inputs empty": Bad(inputs(), 422, "is empty"),
    "an unknown field": Bad(inputs("a", model="b"), 422, "unknown field"),
    "explain a text": Bad(inputs("a", explain="yes"), 422, "explain"),
    "too many inputs": Bad(inputs(*"abcde"), 422, "5 inputs; at most 4"),
    "an input a number": Bad(inputs("a", 1), 422, "inputs[1]"),
    "an input null": Bad(inputs(None), 422, "inputs[0]"),
    "an input NaN": Bad(body(b'{"inputs": [NaN]}'), 422, "inputs[0]"),
    "an input a list": Bad(inputs(["a"]), 422, "inputs[0]"),
    "an input without its text": Bad(inputs({"texts": "a"}), 422, "no 'text'"),
    "an input with another field": Bad(inputs({"text": "a", "b": "c"}), 422, "unknown field 'b'"),
    "an input with a number as text": Bad(inputs({"text": 5}), 422, "must be a string"),
    "an input without a word": Bad(inputs(" "), 422, "inputs[0]: a text without a word"),
    "unpaired surrogate": Bad(body(b'{"inputs": ["a\\ud800"]}'), 422, "an unpaired surrogate"),
    "too many words": Bad(inputs("a " * 51), 422, "length 51; at most 50"),
    "a word of 900,000 letters": Bad(inputs("a" * 900_000), 422, "900000 characters"),
    "a million words": Bad(inputs("a " * 10**6), 413, "more than 1048576 bytes"),
    "ten megabytes": Bad(body(MEGABYTES), 413, "more than"),
    "ten megabytes in chunks": Bad(chunked(MEGABYTES), 413, "more than"),
    "an unknown model": Bad(raw(path="/v1/models/no:predict", body=b"{}"), 404, "no such model"),
    "a page of an unknown model": Bad(path("/models/no"), 404, "no such model"),
    "a prediction by GET": Bad(path(PREDICT), 405, "Not Allowed"),
    "a prediction by DELETE": Bad(path(PREDICT, "DELETE"), 405, "Not Allowed"),
    "another verb": Bad(path(PREDICT, "predict"), 405, ""),
    "a path upwards": Bad(path("/static/../app.py"), 404),
    "an encoded path upwards": Bad(path("/static/%2e%2e%2fapp.py"), 404),
    "a path of the file system": Bad(path("//etc/passwd"), 404),
    "a path upwards of models": Bad(path("/v1/models/../../../etc/passwd"), 404),
    "a path with a zero byte": Bad(path("/models/toy%00"), 404),
    "a path of ten kilobytes": Bad(path("/" + "a" * 10_000), 404),
    "plain text": Bad(raw(body=b'{"inputs": ["a"]}', kind="text/plain"), 415, "application/json"),
    "no content type": Bad(raw(body=b'{"inputs": ["a"]}', kind=None), 415, "application/json"),
    "a form": Bad(raw(kind="application/x-www-form-urlencoded"), 415, "application/json"),
    "no HTTP": Bad(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "headers of 100 kilobytes": Bad(raw(x="a" * 10**5), 400),
    "a negative length": Bad(raw(content_length=-1), 400),
    "a length that is none": Bad(raw(content_length="much"), 400),
    "another version": Bad(b"POST / HTTP/9.9\r\nhost: localhost\r\n\r\n", 405),
    "a crash of the model": Bad(inputs("a crash"), 500, "the model failed on this input"),
    "a slow body": Bad(raw(content_length=50) + b'{"inputs', 408, "did not arrive in time"),
    "half a body, closed": Bad(raw(content_length=50) + b'{"inputs', 408, "", half_close=True),
}
SLOW = {name for name, bad in BAD.items() if bad.status == 408}
