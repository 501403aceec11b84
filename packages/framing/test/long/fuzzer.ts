// Fuzzes one framing, guided by the block coverage of V8: an input that reaches a block no input reached before joins the
// corpus that later ones are made from. Prints its counts as JSON; ends with status 1 and the input at a finding.
// Arguments: framing, number of inputs, seed, path of the golden vectors.
import { readFileSync } from 'node:fs'
import { type Profiler, Session } from 'node:inspector'
import { isDeepStrictEqual } from 'node:util'
import { type FrameHandler, isSeamError, type Message } from '@seamline/core'
import { msgpack, protobuf } from '../../src/index.ts'

const [id, inputsText, seedText, vectorsPath] = process.argv.slice(2)
const inputs = Number(inputsText)
const framing = (id === 'msgpack' ? msgpack : protobuf)({ checksum: false })
const corpus: Uint8Array[] = JSON.parse(readFileSync(vectorsPath!, 'utf8')).map(
  ({ frame }: { frame: string }) => Uint8Array.from(Buffer.from(frame, 'hex')).fill(0, 4, 8),
)
const seeds = corpus.length

// Most inputs end in an error; their stacks are not read.
Error.stackTraceLimit = 0

const MAX_INPUT_BYTES = 4096
const MAX_PAYLOAD_BYTES = 4096
const BATCH_INPUTS = 1000
const HEADROOM_BYTES = 70_000
const TOKENS = [
  '00000080 80000000 ffffffff 7fffffff 0000000000000080 8000000000000000 0000010000000000 0000000000010000',
  '8080808008 ffffffff0f 808080808020 ffffffffffffff0f 8080808080808010 ffffffffffffffffff01 80808080808080808001',
  'c0 c1 c2 c3 c40a c67fffffff c9ffffffff78 ca7fc00000 cb7ff8000000000000 cb4340000000000000 cb8000000000000000',
  'cf0020000000000001 cf8000000000000000 d3ffffffffffffffff d40000 d7ff d9ff db7fffffff dc ffff dd7fffffff deffff 81',
  'd57265 d47265 c70173 d46500 d47800 d47300 efbbbf eda080 c080 f09fa7b5 0b0c 8301 fb 7a00',
]
  .join(' ')
  .split(' ')
  .map((hex) => Buffer.from(hex, 'hex'))

// Xorshift32: the same inputs for the same seed.
let state = Number(seedText) * 2654435761 || 1
function below(count: number): number {
  state ^= state << 13
  state ^= state >>> 17
  state ^= state << 5
  return (state >>> 0) % count
}

const scratch = new Uint8Array(2 * MAX_INPUT_BYTES)

function mutated(): Uint8Array {
  // Half of the time a golden vector: most of what was found since ends in an error.
  const parent = corpus[below(below(2) === 0 ? seeds : corpus.length)]!
  scratch.set(parent)
  let length = parent.byteLength
  for (let edits = below(2) === 0 ? 1 : 1 + below(4); edits > 0; edits--) {
    const at = below(length + 1)
    const action = below(9)
    if (action === 0 && at < length) scratch[at]! ^= 1 << below(8)
    else if (action === 1 && at < length) scratch[at] = below(256)
    else if (action === 2 && at < length) scratch[at]! += below(2) === 0 ? 1 : -1
    else if (action === 3) {
      const count = Math.min(1 + below(8), length - at)
      scratch.copyWithin(at, at + count, length)
      length -= count
    } else if (action === 8) length = at
    else {
      const other = corpus[below(corpus.length)]!
      const from = below(other.byteLength)
      const piece =
        action < 6
          ? TOKENS[below(TOKENS.length)]!
          : action === 6
            ? Uint8Array.of(below(256), below(256)).subarray(0, 1 + below(2))
            : other.subarray(from, from + 1 + below(40))
      if (length + piece.byteLength > MAX_INPUT_BYTES) continue
      if (below(2) === 0) {
        scratch.copyWithin(at + piece.byteLength, at, length)
        length += piece.byteLength
      } else length = Math.max(length, at + piece.byteLength)
      scratch.set(piece, at)
    }
  }
  const input = scratch.slice(0, length)
  // Mostly the length of the header is right, to get behind the check of it.
  if (length >= 8 && below(8) > 0) {
    const headerBytes = length - 8 - Math.min(below(4) === 0 ? below(24) : 0, length - 8)
    input[0] = headerBytes
    input[1] = headerBytes >>> 8
    input[2] = 0
    input[3] = 0
    input.fill(0, 4, 8)
  }
  return input
}

const payloadTarget = new Uint8Array(MAX_PAYLOAD_BYTES)
const room = new Uint8Array(HEADROOM_BYTES + MAX_PAYLOAD_BYTES)
type Found = [message: Message, payload: Uint8Array]

function decode(input: Uint8Array): Found[] {
  const found: Found[] = []
  const handler: FrameHandler = {
    target(_, payloadBytes) {
      if (payloadBytes > MAX_PAYLOAD_BYTES) throw new Error(`a target of ${payloadBytes} B`)
      return payloadTarget
    },
    message: (message, payload) => found.push([message, payload.slice()]),
  }
  const decoder = framing.createDecoder(handler, { maxPayloadBytes: MAX_PAYLOAD_BYTES })
  for (let at = 0; at < input.byteLength; ) {
    const buffer = decoder.nextBuffer()
    const piece = input.subarray(at, at + buffer.byteLength)
    buffer.set(piece)
    decoder.received(piece.byteLength)
    at += piece.byteLength
  }
  return found
}

type Outcome = 'accepted' | 'refused' | 'waiting'

function execute(input: Uint8Array): Outcome {
  let found: Found[]
  try {
    found = decode(input)
  } catch (error) {
    if (isSeamError(error) && (error.code === 'PROTOCOL' || error.code === 'LIMIT')) return 'refused'
    throw error
  }
  for (const [message, payload] of found) {
    const again = decode(framing.encode(message, payload))
    if (!isDeepStrictEqual(again, [[message, payload]])) throw new Error('another message after re-encoding')
    const start = framing.encodeInto(message, room, HEADROOM_BYTES, payload.byteLength)
    room.set(payload, HEADROOM_BYTES)
    const frame = room.subarray(start, HEADROOM_BYTES + payload.byteLength)
    if (!isDeepStrictEqual(decode(frame), again)) throw new Error('another message after encodeInto')
  }
  return found.length > 0 ? 'accepted' : 'waiting'
}

const session = new Session()
session.connect()
function post<T>(method: string, params?: object): T {
  let result: unknown
  session.post(method, params, (error, value) => {
    if (error) throw error
    result = value
  })
  return result as T
}

const seen = new Set<number>()
/** Offsets where a block of a function begins or ends, by the offset of the function. */
const edges = new Map<number, Set<number>>()

/**
 * Blocks of this file, by the offset they begin at, that ran since the last call and are not in `seen`. V8 reports a block
 * only when its count differs from that of the code around it, so each known offset is looked up in what surrounds it.
 */
function newBlocks(): number[] {
  const { result } = post<Profiler.TakePreciseCoverageReturnType>('Profiler.takePreciseCoverage')
  const blocks: number[] = []
  for (const script of result) {
    if (script.url !== import.meta.url) continue
    for (const { ranges } of script.functions) {
      const whole = ranges[0]!
      const offsets = edges.get(whole.startOffset) ?? new Set<number>()
      edges.set(whole.startOffset, offsets)
      for (const { startOffset, endOffset } of ranges) {
        offsets.add(startOffset)
        if (endOffset < whole.endOffset) offsets.add(endOffset)
      }
      for (const offset of offsets) {
        if (seen.has(offset)) continue
        const innermost = ranges.findLast((range) => range.startOffset <= offset && offset < range.endOffset)
        if (innermost !== undefined && innermost.count > 0) blocks.push(offset)
      }
    }
  }
  return blocks
}

/** The first of `batch` that reaches one of `blocks`, found by halving. */
function firstThatReaches(blocks: ReadonlySet<number>, batch: readonly Uint8Array[]): Uint8Array | undefined {
  let candidates = batch
  while (candidates.length > 1) {
    const half = candidates.slice(0, candidates.length >> 1)
    for (const input of half) execute(input)
    const reached = newBlocks().some((block) => blocks.has(block))
    candidates = reached ? half : candidates.slice(candidates.length >> 1)
  }
  return candidates[0]
}

function learn(batch: readonly Uint8Array[]): void {
  const blocks = newBlocks()
  while (blocks.length > 0) {
    const wanted = new Set(blocks)
    const input = firstThatReaches(wanted, batch)
    if (input === undefined) break
    execute(input)
    const reached = newBlocks().filter((block) => wanted.has(block))
    if (reached.length === 0) break
    for (const block of reached) seen.add(block)
    blocks.splice(0, blocks.length, ...blocks.filter((block) => !seen.has(block)))
    if (input.byteLength <= MAX_INPUT_BYTES) corpus.push(input)
  }
  // What came from the machinery around the inputs.
  for (const block of blocks) seen.add(block)
}

post('Profiler.enable')
post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
const counts: Record<Outcome, number> = { accepted: 0, refused: 0, waiting: 0 }
for (const input of corpus) execute(input)
for (const block of newBlocks()) seen.add(block)
const blocksOfSeeds = seen.size
const startMs = performance.now()
let slowestMs = 0
for (let done = 0; done < inputs; ) {
  const batch: Uint8Array[] = []
  for (; batch.length < BATCH_INPUTS && done < inputs; done++) {
    const input = mutated()
    batch.push(input)
    const beganMs = performance.now()
    try {
      counts[execute(input)]++
    } catch (error) {
      console.error(`${id}: input ${Buffer.from(input).toString('hex')}\n`, error)
      process.exit(1)
    }
    slowestMs = Math.max(slowestMs, performance.now() - beganMs)
  }
  learn(batch)
}
const seconds = (performance.now() - startMs) / 1000
console.log(
  JSON.stringify({
    framing: id,
    seed: Number(seedText),
    inputs,
    ...counts,
    executionsPerSecond: Math.round(inputs / seconds),
    seconds: Math.round(seconds),
    slowestMs: Math.round(slowestMs),
    peakRssBytes: process.resourceUsage().maxRSS * 1024,
    corpus: { golden: seeds, found: corpus.length - seeds },
    blocks: { golden: blocksOfSeeds, all: seen.size },
  }),
)
