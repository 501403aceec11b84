// Writes vectors/ggml.json: what ggml's reference makes of seeded inputs. Needs a C compiler and libggml-base, which
// comes with node-llama-cpp; SEAMLINE_LLAMA_LIBS names another folder of it. `--check` compares and writes nothing.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const BLOCK_ELEMENTS = 32
const VECTORS = new URL('../vectors/ggml.json', import.meta.url)

/** Inputs in a fixed order, from integer arithmetic and single roundings alone: the same bits on every machine. */
export function inputs() {
  const random = xorshift(20)
  const cases = {
    // Twelve uniform numbers, less their mean: near a normal distribution.
    gaussian: fill(64, () => bell(random)),
    // Around 1 by channel, a product near a lognormal distribution, with one channel in 911 thirty times that.
    'outlier-channels': outlierChannels(random, 4, 4096).subarray(0, 4 * 4096),
    'large-same-sign': fill(32, () => 8.3e6 + random() * 2e4),
    'large-negative': fill(8, () => -65504 - random() * 65504),
    // The scale is 1 (or a power of two) and values are halves of it: every one is a tie.
    ties: ties(),
    zeros: fill(4, (i) => (i % 3 === 0 ? -0 : 0)),
    'one-value': fill(32, (i) => (i % 33 === 0 ? 1 + random() : 0)),
    // From the smallest denormals to the largest scale that f16 carries, one block for each exponent.
    exponents: fill(171, (i) => powerOfTwo((i >> 5) - 149) * (1 + random()) * (random() < 0.5 ? -1 : 1)),
    'large-set': fill(16384, () => bell(random) * powerOfTwo(Math.floor(random() * 20) - 10)),
  }
  return Object.entries(cases).map(([name, values]) => ({ name, values }))
}

function outlierChannels(random, rows, columns) {
  const scales = Array.from({ length: columns }, (_, channel) => {
    let scale = channel % 911 === 17 ? 30 : 1
    for (let i = 0; i < 12; i++) scale *= 0.75 + 0.5 * random()
    return scale
  })
  return Float32Array.from({ length: rows * columns }, (_, i) => bell(random) * scales[i % columns])
}

function ties() {
  return fill(12, (i) => {
    const [block, column] = [i >> 5, i & 31]
    const halves = column === 0 ? 254 : ((block * 31 + column) * 2 + 1) % 254
    return (halves / 2) * powerOfTwo(block - 6) * (column % 2 === 0 ? 1 : -1)
  })
}

function fill(blocks, value) {
  return Float32Array.from({ length: blocks * BLOCK_ELEMENTS }, (_, i) => value(i))
}

function bell(random) {
  let sum = -6
  for (let i = 0; i < 12; i++) sum += random()
  return sum
}

/** Exact, whatever `Math.pow` does. */
function powerOfTwo(exponent) {
  let value = 1
  for (let i = 0; i < Math.abs(exponent); i++) value *= exponent < 0 ? 0.5 : 2
  return value
}

/** Numbers from 0 to below 1 (Marsaglia's xorshift32). */
function xorshift(seed) {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

/** The library of the installed node-llama-cpp, or undefined. */
function findLibrary() {
  const file = process.platform === 'darwin' ? 'libggml-base.dylib' : 'libggml-base.so'
  const folders = [process.env.SEAMLINE_LLAMA_LIBS]
  const store = fileURLToPath(new URL('../../../node_modules/.pnpm', import.meta.url))
  const names = {
    'linux-x64': 'linux-x64',
    'linux-arm64': 'linux-arm64',
    'darwin-arm64': 'mac-arm64-metal',
    'darwin-x64': 'mac-x64',
  }
  const name = names[`${process.platform}-${process.arch}`]
  for (const entry of existsSync(store) ? readdirSync(store) : []) {
    if (entry.startsWith(`@node-llama-cpp+${name}@`))
      folders.push(join(store, entry, 'node_modules', '@node-llama-cpp', name, 'bins', name))
  }
  return folders
    .filter(Boolean)
    .map((folder) => join(folder, file))
    .find(existsSync)
}

/**
 * Returns a function that passes bytes through a mode of ggml-vectors.c, with `close` to remove the program again, or a
 * string that says what is missing.
 */
export function openGgml() {
  const library = findLibrary()
  if (library === undefined) return 'no libggml-base: node-llama-cpp is not installed for this platform'
  const folder = mkdtempSync(join(tmpdir(), 'ggml-vectors-'))
  const close = () => rmSync(folder, { recursive: true, force: true })
  const program = join(folder, 'ggml-vectors')
  const source = fileURLToPath(new URL('ggml-vectors.c', import.meta.url))
  const built = spawnSync('cc', ['-O1', source, '-o', program, '-ldl'], { encoding: 'utf8', timeout: 60_000 })
  if (built.status !== 0) {
    close()
    return `no C compiler: ${built.error?.message ?? built.stderr}`
  }
  const run = (mode, bytes) => {
    const input = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const ended = spawnSync(program, [library, mode], { input, maxBuffer: 1 << 28, timeout: 60_000 })
    if (ended.status !== 0) throw new Error(`ggml-vectors ${mode}: ${ended.error?.message ?? ended.stderr}`)
    return new Uint8Array(ended.stdout)
  }
  return { run, close }
}

/** SHA-256 in hexadecimal of the memory of a view. */
export function sha256(view) {
  return createHash('sha256')
    .update(new Uint8Array(view.buffer, view.byteOffset, view.byteLength))
    .digest('hex')
}

/** What ggml makes of every input: hashes, and the blocks themselves of all but the largest. */
export function makeVectors(run) {
  return inputs().map(({ name, values }) => {
    const blocks = run('quantize', values)
    const vector = {
      name,
      elements: values.length,
      inputSha256: sha256(values),
      q8_0Sha256: sha256(blocks),
      decodedSha256: sha256(run('dequantize', blocks)),
      bf16Sha256: sha256(run('bf16', values)),
    }
    // Other inputs exceed f16, which ggml makes infinite.
    if (values.every((value) => Math.abs(value) < 65520)) vector.f16Sha256 = sha256(run('f16', values))
    if (values.length <= 8192) vector.q8_0 = Buffer.from(blocks).toString('base64')
    return vector
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const ggml = openGgml()
  if (typeof ggml === 'string') throw new Error(ggml)
  try {
    const text = `${JSON.stringify(makeVectors(ggml.run), null, 2)}\n`
    if (!process.argv.includes('--check')) writeFileSync(VECTORS, text)
    else if (readFileSync(VECTORS, 'utf8') !== text) {
      console.error('vectors/ggml.json is not what this ggml makes of the inputs')
      process.exitCode = 1
    }
  } finally {
    ggml.close()
  }
}
