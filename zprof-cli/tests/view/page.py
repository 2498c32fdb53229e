"""Stands for a web page that fetches a trace as Perfetto's does: an HTTPS server of one page, for a browser that takes any
certificate.

usage: page.py TRACE_URL

Prints its port, and then what the page reports, one JSON a line. The page fetches in the order of `run`, under the content
security policy of Perfetto's page as far as it concerns the trace.
"""
import http.server
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

TRACE = sys.argv[1]
PARTS = urllib.parse.urlsplit(TRACE)

SCRIPT = """
const trace = %s;
async function tell(name, answer) {
  try {
    const response = await answer;
    const bytes = new Uint8Array(await (await response.blob()).arrayBuffer());
    const digest = await crypto.subtle.digest("SHA-256", bytes);
    const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
    return [name, {status: response.status, size: bytes.length, sha256: hex, range: response.headers.get("Content-Range")}];
  } catch (error) {
    return [name, {error: error.name}];
  }
}
async function run() {
  const status = new URL("/status", trace);
  const results = [
    // Perfetto asks first whether a trace processor listens there.
    await tell("status", fetch(status, {method: "post", cache: "no-cache"})),
    await tell("whole", fetch(trace)),
    await tell("first", fetch(trace, {headers: {Range: "bytes=0-99"}})),
    // This form of a range is not one that a page may send unasked.
    await tell("last", fetch(trace, {headers: {Range: "bytes=-100"}})),
    await tell("head", fetch(trace, {method: "HEAD"})),
    await tell("delete", fetch(trace, {method: "DELETE"})),
    await tell("other", fetch(trace, {headers: {"X-Other": "1"}})),
  ];
  await fetch("/report", {method: "POST", body: JSON.stringify(Object.fromEntries(results))});
}
run();
""" % json.dumps(TRACE)

PAGE = f"""<!doctype html>
<meta http-equiv="Content-Security-Policy" content="default-src 'self'; connect-src 'self' {PARTS.scheme}://{PARTS.netloc}">
<title>page</title>
<script src="/script.js"></script>
<img src="/hold.png">
"""

# The page has not loaded before it has reported: a browser that ends when the page has loaded ends in time.
REPORTED = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/script.js":
            self.reply("text/javascript", SCRIPT.encode())
        elif self.path == "/hold.png":
            REPORTED.wait(60)
            self.reply("image/png", b"")
        else:
            REPORTED.clear()
            self.reply("text/html", PAGE.encode())

    def do_POST(self):
        report = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.reply("text/plain", b"")
        print(report, flush=True)
        REPORTED.set()

    def log_message(self, *_):
        pass


with tempfile.TemporaryDirectory() as folder:
    key, certificate = (str(pathlib.Path(folder, name)) for name in ("key.pem", "certificate.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
        + ["-subj", "/CN=page", "-keyout", key, "-out", certificate],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
