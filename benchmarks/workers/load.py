"""Clients of an HTTP server, each with one request at a time: prints the seconds of each request.

    python load.py JOB.json

JOB.json has `port`, `path`, the `bodies` of the requests, used in turn, and the numbers of
`clients` and `requests`. Imports only the standard library, to leave the processors to the server.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main(job: dict[str, Any]) -> dict[str, Any]:
    """The seconds of each request, and in total.

    Raises:
      RuntimeError: for a response with a status other than 200.
    """
    return asyncio.run(_measure(job))


async def _measure(job: dict[str, Any]) -> dict[str, Any]:
    bodies = itertools.islice(itertools.cycle(job["bodies"]), job["requests"])
    requests = (_request(job["path"], body) for body in bodies)
    seconds: list[float] = []
    start = time.perf_counter()
    clients = [_client(job["port"], requests, seconds) for _ in range(job["clients"])]
    await asyncio.gather(*clients)
    return {"seconds": seconds, "total": time.perf_counter() - start}


async def _client(port: int, requests: Iterator[bytes], seconds: list[float]) -> None:
    """Sends requests on one connection until there are no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in requests:
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        body = await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(body.decode())
        seconds.append(time.perf_counter() - start)
    writer.close()


def _request(path: str, body: str) -> bytes:
    data = body.encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text("utf-8")))))
