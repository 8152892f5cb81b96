"""Streams as programs of others see them: curl, nghttp, h2load and Chromium, over clear text and TLS.

Run by `make test-clients`, which installs the programs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.server.live import LiveServer, live_server
from tests.server.parts import MODEL, events_of, mk_context

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
GAP_S, TOKENS = 0.05, 20
BODY = {
    "model": MODEL,
    "stream": True,
    "seed": 0,
    "max_tokens": TOKENS,
    "messages": [{"role": "user", "content": "hi"}],
}
PATH = "/v1/chat/completions"
TEXT = "".join(chr(97 + each % 26) for each in range(TOKENS))


def text_of(stream: bytes) -> str:
    events = [event for event in events_of(stream) if event["choices"]]
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tls")
    certificate = trustme.CA().issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(folder / "cert.pem", append=True)
    return {"certfile": folder / "cert.pem", "keyfile": folder / "key.pem"}


@pytest.fixture(scope="module")
def clear() -> Iterator[LiveServer]:
    with live_server(mk_context(gap_s=GAP_S, cors_origins=("*",))) as server:
        yield server


@pytest.fixture(scope="module")
def secure(tls: dict[str, Path]) -> Iterator[LiveServer]:
    with live_server(mk_context(gap_s=GAP_S, cors_origins=("*",), **tls)) as server:
        yield server


def run(*command: str, body: dict[str, Any] | None = None) -> bytes:
    """What a program writes; it has to end well."""
    assert shutil.which(command[0]), f"{command[0]} is not installed: make test-clients installs it"
    given = None if body is None else json.dumps(body).encode()
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout


@pytest.mark.parametrize("flags", [("--http1.1",), ("--http2-prior-knowledge",)])
def test_curl_in_the_clear(clear: LiveServer, flags: tuple[str, ...]):
    command = ("curl", "-sSN", *flags, "-H", "content-type: application/json", "-d", json.dumps(BODY))
    assert text_of(run(*command, clear.url + PATH)) == TEXT


@pytest.mark.parametrize(("flag", "version"), [("--http1.1", "1.1"), ("--http2", "2")])
def test_curl_over_tls(secure: LiveServer, flag: str, version: str):
    command = ("curl", "-sSNk", flag, "-w", "version %{http_version}", "-H", "content-type: application/json")
    data = run(*command, "-d", json.dumps(BODY), secure.url + PATH)
    stream, _, said = data.rpartition(b"version ")
    assert (text_of(stream), said.decode()) == (TEXT, version)


@pytest.mark.parametrize("kind", ["clear", "secure"])
def test_nghttp_sees_the_head_before_the_first_token(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    server: LiveServer = request.getfixturevalue(kind)
    body = tmp_path / "body.json"
    body.write_text(json.dumps(BODY))
    said = run("nghttp", "-nv", "-d", str(body), "-H", "content-type: application/json", server.url + PATH).decode()
    frames = re.findall(r"\[ *([\d.]+)\].*recv (HEADERS|DATA) frame <length=(\d+)", re.sub(r"\x1b\[[\d;]*m", "", said))
    (head_at, *_), (empty_at, _, empty), (first_at, _, first) = frames[0], frames[1], frames[2]
    assert frames[0][1] == "HEADERS" and int(empty) == 0 and int(first) > 0
    assert float(head_at) <= float(empty_at) <= float(first_at) - GAP_S / 2
    assert len(frames) > TOKENS / 2  # they came one after the other


def test_h2load_counts_every_stream_as_a_success(clear: LiveServer, tmp_path: Path):
    body = tmp_path / "body.json"
    body.write_text(json.dumps(BODY))
    flags = ("-n", "200", "-c", "4", "-m", "25", "-d", str(body), "-H", "content-type: application/json")
    said = run("h2load", *flags, clear.url + PATH).decode()
    assert "200 succeeded, 0 failed, 0 errored, 0 timeout" in said
    assert "status codes: 200 2xx" in said


PAGE = """<!doctype html><script>
async function read() {
  const answer = await fetch(TARGET, {method: "POST", headers: {"content-type": "application/json"}, body: BODY});
  const headAt = performance.now(), reader = answer.body.getReader(), times = [], decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    times.push(performance.now()); text += decoder.decode(value, {stream: true});
  }
  const entry = performance.getEntriesByName(TARGET)[0];
  return {headAt, times, text, protocol: entry ? entry.nextHopProtocol : "", status: answer.status};
}
read().catch(error => ({error: String(error)})).then(
  said => fetch("/said", {method: "POST", body: JSON.stringify(said)}));
</script>"""


def ask_in_chromium(target: str, folder: Path) -> dict[str, Any]:
    """What a page of another origin says of its fetch."""
    said: list[bytes] = []
    heard = threading.Event()
    page = PAGE.replace("TARGET", json.dumps(target)).replace("BODY", json.dumps(json.dumps(BODY))).encode()

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def do_POST(self) -> None:
            said.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()
            heard.set()

        def log_message(self, *words: Any) -> None:
            return

    assert shutil.which("chromium"), "chromium is not installed: make test-clients installs it"
    pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--ignore-certificate-errors",
        f"--user-data-dir={folder}",
    ]
    command = ["chromium", *flags, f"http://127.0.0.1:{pages.server_port}/"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            assert heard.wait(60), "the page says nothing"
        finally:
            browser.kill()
            pages.shutdown()
            pages.server_close()
    return json.loads(said[0])


@pytest.mark.parametrize(("kind", "protocol"), [("clear", "http/1.1"), ("secure", "h2")])
def test_a_page_in_chromium_reads_the_stream_as_it_comes(
    kind: str, protocol: str, request: pytest.FixtureRequest, tmp_path: Path
):
    server: LiveServer = request.getfixturevalue(kind)
    said = ask_in_chromium(server.url + PATH, tmp_path)
    assert "error" not in said, said
    assert (said["status"], text_of(said["text"].encode())) == (200, TEXT)
    assert said["protocol"] in (protocol, "")  # another origin is not always told
    times = [said["headAt"], *said["times"]]
    assert len(times) > TOKENS / 2
    assert times[-1] - times[0] > (TOKENS - 2) * GAP_S * 1000 * 0.8  # not all at once
