// Runs the test program of this folder: run.mjs MODULE...
import fs from 'node:fs';
import process from 'node:process';
import { WASI } from 'node:wasi';

async function instance(path, env) {
  const module = await WebAssembly.compile(fs.readFileSync(path));
  if (!path.includes('wasip1')) return WebAssembly.instantiate(module, {});
  const wasi = new WASI({ version: 'preview1', env, preopens: {} });
  const made = await WebAssembly.instantiate(module, wasi.getImportObject());
  wasi.initialize(made);
  return made;
}

for (const path of process.argv.slice(2)) {
  // A system without an environment is asked for nothing.
  const asked = path.includes('wasip1') ? [false, true] : [false];
  for (const isAsked of asked) {
    const lists = { LD_LIBRARY_PATH: '/a:/b', PYTHONPATH: '/c:/d', PJRT_PLUGIN_LIBRARY_PATH: '/e:/f' };
    const env = isAsked ? { ZPROF: '1', ...lists } : lists;
    const { exports } = await instance(path, env);
    const failed = exports.run(isAsked);
    console.log(`${path}${isAsked ? ' with ZPROF' : ''}: ${failed === 0 ? 'passed' : `check ${failed} failed`}`);
    if (failed !== 0) process.exitCode = 1;
  }
}
