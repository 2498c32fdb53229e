// Runs the trace processor of Perfetto's page in node, which takes the part of the page's worker.
// usage: node perfetto-engine.js FOLDER    FOLDER holds engine_bundle.js and trace_processor.wasm
// Requests come on stdin and replies go to stdout, both as a stream of TraceProcessorRpc messages.
const fs = require('fs');
const path = require('path');

const folder = process.argv[2];
const { stdin, stdout } = { stdin: 0, stdout: 1 };
const exit = process.exit.bind(process);

// Stdout is for replies alone.
for (const level of ['log', 'info', 'warn', 'debug']) {
  console[level] = (...parts) => fs.writeSync(2, parts.join(' ') + '\n');
}

const read = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));

// The names that a worker has, as far as the bundle uses them.
globalThis.self = globalThis;
globalThis.location = { href: 'http://localhost/engine_bundle.js', origin: 'http://localhost', protocol: 'http:' };
globalThis.WorkerGlobalScope = class {};
globalThis.importScripts = () => {};
globalThis.fetch = async (url) => new Response(read(url), { headers: { 'Content-Type': 'application/wasm' } });
globalThis.XMLHttpRequest = class {
  open(_method, url) { this.url = url; }
  send() {
    this.response = new Uint8Array(read(this.url)).buffer;
    this.status = 200;
    this.onload?.();
  }
};

// The names of node are hidden from the bundle, which would take them for a sign that it is in no worker.
new Function('process', 'require', 'module', 'exports', read('engine_bundle.js').toString())();

function write(data) {
  for (let done = 0; done < data.length;) {
    try {
      done += fs.writeSync(stdout, data, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

const port = { onmessage: null, postMessage: write };
globalThis.onmessage({ data: port });

const buffer = Buffer.alloc(1 << 20);
function serve() {
  fs.read(stdin, buffer, 0, buffer.length, null, (error, length) => {
    if (error || length === 0) exit(error ? 1 : 0);
    port.onmessage({ data: new Uint8Array(buffer.subarray(0, length)) });
    setImmediate(serve);
  });
}
serve();
