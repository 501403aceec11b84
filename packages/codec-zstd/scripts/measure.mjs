// Prints as markdown what each zstd library does with synthetic activations: MB/s of the inner codec's bytes, one
// thread, best of the rounds (other work on the machine only ever adds time). Every result is checked before it is timed.
//
//   node scripts/measure.mjs [--level 1] [--rows 128] [--columns 4096] [--rounds 31] [--with FOLDER]
//
// FOLDER is one where `npm install zstd-codec zstddec` was run, to have those two in the table.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { zstdArm, zstdArms } from '../dist/arms.js'
import { compressBound, parseFrame } from '../dist/frame.js'
import { shuffle16, unshuffle16 } from '../dist/shuffle.js'

const { values: options } = parseArgs({
  options: {
    level: { type: 'string', default: '1' },
    rows: { type: 'string', default: '128' },
    columns: { type: 'string', default: '4096' },
    rounds: { type: 'string', default: '31' },
    with: { type: 'string' },
  },
})
const [level, rows, columns, rounds] = [options.level, options.rows, options.columns, options.rounds].map(
  Number,
)

const libraries = await allLibraries()
const inputs = allInputs(activations(rows, columns))
const names = Object.keys(inputs)

console.log(`Node ${process.versions.node}, level ${level}, ${rows} x ${columns} values, best of ${rounds}\n`)
const reference = zstdArm('wasm')
const frames = Object.fromEntries(names.map((name) => [name, compressWith(reference.compress, inputs[name])]))
row(
  'encode / decode MB/s (ratio)',
  names.map((name) => `${name} (${(inputs[name].byteLength / frames[name].byteLength).toFixed(3)})`),
)
row(
  '---',
  names.map(() => '---'),
)
const cells = libraries.map(() => [])
for (const input of names) {
  const content = inputs[input]
  const frame = frames[input]
  const dst = new Uint8Array(compressBound(content.byteLength))
  const back = new Uint8Array(content.byteLength)
  for (const { name, compress, decompress } of libraries) {
    decompress(frame, back)
    if (Buffer.compare(back, content) !== 0) throw new Error(`${name} decodes ${input} wrongly`)
    if (compress === undefined) continue
    const own = compressWith(compress, content)
    reference.decompress(own, back.fill(0), parseFrame(own, content.byteLength))
    if (Buffer.compare(back, content) !== 0) throw new Error(`${name} encodes ${input} wrongly`)
  }
  const encode = speeds(
    content.byteLength,
    libraries.map(({ compress }) => compress && (() => compress(content, level, dst))),
  )
  const decode = speeds(
    content.byteLength,
    libraries.map(
      ({ decompress }) =>
        () =>
          decompress(frame, back),
    ),
  )
  for (const [i, list] of cells.entries()) list.push(`${encode[i]} / ${decode[i]}`)
}
for (const [i, { name }] of libraries.entries()) row(name, cells[i])

const halves = inputs['bf16 shuffled']
const other = new Uint8Array(halves.byteLength)
const [forth, back] = speeds(halves.byteLength, [
  () => shuffle16(halves, other),
  () => unshuffle16(halves, other),
])
console.log(`\nshuffle16 ${forth} MB/s, unshuffle16 ${back} MB/s`)

function row(name, cells) {
  console.log(`| ${[name, ...cells].join(' | ')} |`)
}

function compressWith(compress, content) {
  const dst = new Uint8Array(compressBound(content.byteLength))
  return dst.slice(0, compress(content, level, dst))
}

/**
 * Highest MB/s of each, '-' where there is none; they take turns, so that a slow moment of the machine meets all. One round
 * repeats until 2 MiB have passed, so that a small tensor is no matter of the clock.
 */
function speeds(bytes, runs) {
  const repeats = Math.max(1, Math.ceil(2 ** 21 / bytes))
  const times = runs.map(() => [])
  for (let round = -3; round < rounds; round++)
    for (const [i, run] of runs.entries()) {
      if (run === undefined) continue
      const startMs = performance.now()
      for (let n = 0; n < repeats; n++) run()
      if (round >= 0) times[i].push((performance.now() - startMs) / repeats)
    }
  return times.map((list) => (list.length === 0 ? '-' : (bytes / 1000 / Math.min(...list)).toFixed(0)))
}

/** Gaussian, times a lognormal scale (s = 0.5) of the channel, times 30 in one channel of 911. */
function activations(rows, columns) {
  let state = 7
  const random = () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
  }
  const gaussian = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  const scales = Float64Array.from(
    { length: columns },
    (_, i) => Math.exp(0.5 * gaussian()) * (i % 911 === 5 ? 30 : 1),
  )
  return Float32Array.from({ length: rows * columns }, (_, i) => gaussian() * scales[i % columns])
}

/** The bytes that inner codecs make of the values: to nearest for f16 and bf16, 32 i8 behind an f16 scale for q8_0. */
function allInputs(values) {
  const f16 = Uint16Array.from(values, toHalf)
  const bf16 = Uint16Array.from(
    new Uint32Array(values.buffer),
    (bits) => (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16,
  )
  const q8 = new Uint8Array((values.length / 32) * 34)
  const view = new DataView(q8.buffer)
  for (let block = 0; block < values.length / 32; block++) {
    const part = values.subarray(block * 32, block * 32 + 32)
    const scale = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127
    view.setUint16(block * 34, toHalf(scale), true)
    for (const [i, value] of part.entries()) view.setInt8(block * 34 + 2 + i, Math.round(value / scale))
  }
  const bytes = (array) => new Uint8Array(array.buffer)
  const shuffled = (array) => {
    const dst = new Uint8Array(array.byteLength)
    shuffle16(bytes(array), dst)
    return dst
  }
  return {
    f32: bytes(values),
    f16: bytes(f16),
    'f16 shuffled': shuffled(f16),
    bf16: bytes(bf16),
    'bf16 shuffled': shuffled(bf16),
    q8_0: q8,
  }
}

/** Normal f16 to nearest; smaller values become 0. Good for these inputs, not for others. */
function toHalf(value) {
  const magnitude = Math.abs(value)
  if (magnitude < 2 ** -14) return 0
  const exponent = Math.floor(Math.log2(magnitude))
  const units = Math.round(magnitude * 2 ** (10 - exponent))
  return (value < 0 ? 0x8000 : 0) + ((exponent + 14) << 10) + units
}

async function allLibraries() {
  const found = zstdArms().map((name) => {
    const { compress, decompress } = zstdArm(name)
    return {
      name: { native: 'node:zlib', wasm: '@foxglove/wasm-zstd', fzstd: 'fzstd, checked' }[name],
      compress,
      decompress: (frame, dst) => decompress(frame, dst, parseFrame(frame, dst.byteLength)),
    }
  })
  const bokuweb = await import('@bokuweb/zstd-wasm')
  await bokuweb.init()
  found.push(own('@bokuweb/zstd-wasm', bokuweb.compress, (frame) => bokuweb.decompress(frame)))
  if (options.with === undefined) return found
  const require = createRequire(join(options.with, 'package.json'))
  const { ZstdCodec } = require('zstd-codec')
  const simple = await new Promise((resolve) => ZstdCodec.run((zstd) => resolve(new zstd.Simple())))
  found.push(
    own(
      'zstd-codec',
      (src, level) => simple.compress(src, level),
      (frame) => simple.decompress(frame),
    ),
  )
  const { ZSTDDecoder } = require('zstddec')
  const decoder = new ZSTDDecoder()
  await decoder.init()
  found.push(own('zstddec', undefined, (frame, bytes) => decoder.decode(frame, bytes)))
  return found
}

/** A library that returns memory of its own, which is copied out as the arms do. */
function own(name, compress, decompress) {
  return {
    name,
    compress:
      compress &&
      ((src, level, dst) => {
        const frame = compress(src, level)
        dst.set(frame)
        return frame.byteLength
      }),
    decompress: (frame, dst) => dst.set(decompress(frame, dst.byteLength)),
  }
}
