// Splits argv[2] into argv[3] and stops for good in the middle of the first stage file, to be killed there.
import { readdirSync } from 'node:fs'
import { splitModel } from '../dist/index.js'

await splitModel({
  source: process.argv[2],
  outDir: process.argv[3],
  stages: 2,
  reuse: 'never',
  onProgress() {
    const names = readdirSync(process.argv[3])
    if (!names.some((name) => name.startsWith('stage-1-of-2.gguf.'))) return
    process.stdout.write('half')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  },
})
