"""andes-jax explain: why a request waited, from a running server or its request log."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import orjson
import typer

from andes_jax.commands.failure import CommandError
from andes_jax.failure import UsageError

LOCAL = "http://127.0.0.1:8000"
TIMEOUT_S = 10.0

_Record = dict[str, Any]


def explain(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="Id of a reply, or of one of its choices.")],
    url: Annotated[str | None, typer.Option(help=f"The server's address, with or without /v1; else {LOCAL}.")] = None,
    api_key: Annotated[str | None, typer.Option(help="The server's key.")] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ask no server, but a file of its --request-log.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record itself, as JSON.")] = False,
) -> None:
    """Say why a request waited, when and why it started, who took its place, and how it ended.

    REQUEST_ID is the id that every reply carries, such as chatcmpl-9f2c...; it stands for all choices of the reply, and
    chatcmpl-9f2c...:1 for the second one alone. Times are seconds from arrival. The server knows live requests and the
    last 2,048 that ended; older ones are in its request log, if it was started with --request-log FILE.

    Examples:

      andes-jax explain chatcmpl-9f2c41d07ab84e6b
      andes-jax explain chatcmpl-9f2c41d07ab84e6b:1 --url http://gpu-1:8000 --api-key KEY
      andes-jax explain chatcmpl-9f2c41d07ab84e6b --log requests.jsonl
    """
    if not request_id or not request_id.isprintable() or "/" in request_id:
        raise UsageError(f"{request_id!r} is no id of a request; take the id of a reply, such as chatcmpl-9f2c...")
    if log is not None and (url is not None or api_key is not None):
        raise UsageError("--log reads a file and asks no server; leave out --url and --api-key, or --log")
    found = from_server(request_id, url or LOCAL, api_key) if log is None else from_log(request_id, log)
    if as_json:
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
        return
    for line in story_lines(found):
        typer.echo("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line))


def story_lines(found: _Record) -> Iterator[str]:
    """What is printed about a record, or about those of a call. Raises CommandError for what is no record."""
    from andes_jax.scheduling.words import tell

    several = found.get("requests")
    for index, record in enumerate(several if isinstance(several, list) else [found]):
        try:
            story = tell(record)
        except ValueError as error:
            raise CommandError(f"the explanation cannot be read; is it from another version? {error}") from error
        if index:
            yield ""
        yield story.title
        yield ""
        width = max(len(f"{each.at_s:.3f}") for each in story.timeline) + 2
        for each in story.timeline:
            yield f"{each.at_s:>{width}.3f} s  {each.words}"
            for detail in each.details:
                yield f"{'':{width}}    {detail}"
        yield ""
        yield story.summary[:1].upper() + story.summary[1:]


def from_server(request_id: str, url: str, api_key: str | None) -> _Record:
    """What a server tells of a request or of a call. Raises CommandError."""
    from urllib.parse import quote

    import httpx

    from andes_jax.loadtest.connections import parse_url

    address = parse_url(url)
    base = f"{'https' if address.tls else 'http'}://{address.authority}{address.path}"
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise UsageError("--api-key has characters that no key has")
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    try:
        answer = httpx.get(
            f"{base}/v1/andes/requests/{quote(request_id, safe='')}/explain",
            headers=headers,
            timeout=TIMEOUT_S,
            trust_env=False,  # as in bench, no proxy stands between
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise CommandError(f"no answer from {base}: {reason}; is the server running, and at this --url?") from error
    try:
        told = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        told = None
    if answer.status_code == 200 and isinstance(told, dict):
        return told
    raise CommandError(_refused(base, answer.status_code, told))


def _refused(base: str, status: int, told: object) -> str:
    """What to say of an answer that is no record."""
    error = told.get("error") if isinstance(told, dict) else None
    error = error if isinstance(error, dict) else {}
    message = error.get("message")
    if status == 401:
        return f"{base} wants its key: {message or 'unauthorized'} Give it with --api-key."
    if status == 404 and error.get("code") == "request_not_found":
        return f"{message} {base} forgets ended requests; its --request-log has them: --log FILE."
    if status in (200, 404):
        return f"{base} explains no requests; is it an andes-jax server?"
    return f"{base} answered with status {status}: {message or 'without a reason'}"


def from_log(request_id: str, path: Path) -> _Record:
    """What a request log has of a request or of a call, in the server's shape. Raises CommandError."""
    latest: dict[str, _Record] = {}  # an id may be used again
    for line in _lines_about(request_id, path):
        latest[line["id"]] = line
    if not latest:
        raise CommandError(f"{path} has no request {request_id!r}; requests are written to it when they end")
    if request_id in latest:
        return _record_of(latest[request_id], path)
    choices = sorted(latest, key=lambda name: int(name.rpartition(":")[2]))
    return {"id": request_id, "requests": [_record_of(latest[name], path) for name in choices]}


def _record_of(line: _Record, path: Path) -> _Record:
    if "explain" not in line:
        end = f"it was {line['finish']}" if line.get("finish") in ("refused", "failed", "cancelled") else "it ended"
        raise CommandError(f"{path} says of {line['id']} only that {end}: the server no longer knew more of it")
    record = {"id": line["id"], "events": line["explain"]}
    return record | ({"waits": line["waits"]} if "waits" in line else {})


def _lines_about(request_id: str, path: Path) -> Iterator[_Record]:
    """The lines of a request, and of a call's choices."""
    wanted = orjson.dumps(request_id)[:-1]  # quick to look for, and lines without it need not be parsed
    with _opened(path) as file:
        try:
            for number, text in enumerate(file, start=1):
                if wanted not in text:
                    continue
                try:
                    line = orjson.loads(text)
                except orjson.JSONDecodeError as error:
                    raise CommandError(f"{path}, line {number}: no JSON: {error}") from None
                if isinstance(line, Mapping) and _is_about(line.get("id"), request_id):
                    yield dict(line)
        except (EOFError, gzip.BadGzipFile) as error:
            raise CommandError(f"{path}: {error}") from error


def _is_about(name: object, request_id: str) -> bool:
    if not isinstance(name, str):
        return False
    call, _, index = name.rpartition(":")
    return name == request_id or (call == request_id and index.isdecimal())


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb"))
