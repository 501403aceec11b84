import { randomBytes } from 'node:crypto'
import { constants as files } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { endianness } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { constants, gunzip, gzip } from 'node:zlib'
import { isSeamError, SeamError, SPAN_RECORD_LENGTH } from '@seamline/core'
import type { ProcessTrace, RunTrace } from './trace.ts'
import { MAX_PROCESSES, type Member, parseTrace, type StoredProcess, type StoredTrace } from './trace-json.ts'

/** Writes a trace while it is being recorded. */
export interface TraceWriter {
  /**
   * Adds what was recorded since the last part: its spans and lost spans. Sequences are taken as they stand and replace those of the part
   * before. Parts are written one after another; when the promise resolves, what the folder holds outlives the process. The trace is
   * read before this returns, except its spans, which must stay as they are until the promise settles. Rejects with `FILE`
   * or `USAGE`; the first failure is also that of every later call, so that a caller may leave the promise alone.
   */
  part(trace: RunTrace): Promise<void>
  /**
   * Writes what `trace`, the whole of the recording, tells beside its spans, and marks the record as it is marked. Spans are those of the
   * parts; where those are not as many as the whole has, the whole is written instead.
   */
  finish(trace: RunTrace): Promise<void>
  /** Once all parts so far are written: whether the folder holds something that can be read. Never rejects. */
  flushed(): Promise<boolean>
}

/** A trace that was read, and what is not in it. */
export interface StoredRun extends RunTrace {
  /** One sentence for each thing that the folder lost; empty for one that was finished. */
  readonly losses: readonly string[]
}

export interface ReadTraceOptions {
  /** Memory for spans of all processes, 48 bytes each. @default 1 GiB */
  readonly maxSpanBytes?: number
  /** Length of `trace.json`. @default 256 MiB */
  readonly maxJsonBytes?: number
}

const JSON_FILE = 'trace.json'
const RECORD_BYTES = SPAN_RECORD_LENGTH * Float64Array.BYTES_PER_ELEMENT
const MAX_SPAN_BYTES = 2 ** 30
const MAX_JSON_BYTES = 2 ** 28
/** Deflate makes no more than this of a byte: 258 bytes of two bits. */
const MAX_INFLATION = 1032
/** zlib takes and gives less than 4 GiB at once; parts are far smaller. */
const MAX_MEMBER_RECORDS = 2 ** 20
/** A pipe in the place of a file must not hold up the reader. */
const READ = files.O_RDONLY | files.O_NONBLOCK
const SWAPPED = endianness() === 'BE'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

/**
 * Writes a trace into a folder: `trace.json`, and for every process `spans-<index>.f64.gz`, its records as little-endian float64. The
 * folder appears only when it is whole. Throws `FILE` when it exists and is not empty: a record is never overwritten.
 */
export async function writeTrace(dir: string, trace: RunTrace): Promise<void> {
  const partial = partialOf(dir)
  try {
    await requireEmpty(dir)
    await writeTo(
      partial,
      snapshot(trace),
      trace.processes.map(({ spans }) => spans),
    )
    await rename(partial, dir)
    await syncFolder(dirname(dir))
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw unwritten(dir, error)
  }
}

/**
 * Writes a trace in parts into a folder, which must be empty or missing. From the first part on the folder can be read with
 * {@link readTrace}; until it is finished it is marked as not complete. A process that is killed loses the part it was writing.
 * Throws `FILE` for a folder that is not empty or cannot be made.
 */
export async function traceWriter(dir: string): Promise<TraceWriter> {
  await prepare(dir).catch((error: unknown) => Promise.reject(unwritten(dir, error)))
  let stored: StoredTrace | undefined
  let before: Promise<void> = Promise.resolve()

  function inOrder(work: () => Promise<void>): Promise<void> {
    const done = before.then(work).catch((error: unknown) => Promise.reject(unwritten(dir, error)))
    before = done
    done.catch(() => {}) // told again by the next call
    return done
  }

  async function append(next: StoredTrace, spans: readonly Float64Array[]): Promise<void> {
    const known = stored?.processes
    if (known !== undefined && known.length !== next.processes.length) {
      throw new SeamError(
        'USAGE',
        `a part of ${next.processes.length} processes follows one of ${known.length}`,
      )
    }
    const processes: StoredProcess[] = []
    for (const [i, process] of next.processes.entries()) {
      const members = [...(known?.[i]?.members ?? []), ...(await appendSpans(spansFile(dir, i), spans[i]!))]
      processes.push(merged(known?.[i], { ...process, members }))
    }
    const all = { ...next, processes }
    await replaceJson(dir, all)
    stored = all
  }

  return {
    flushed: () =>
      before.then(
        () => stored !== undefined,
        () => false,
      ),
    part(trace) {
      const next = settled(() => snapshot({ ...trace, complete: false }))
      const spans = trace.processes.map((process) => process.spans)
      return inOrder(async () => append(await next, spans))
    },
    finish(trace) {
      const whole = settled(() => snapshot(trace))
      const spans = trace.processes.map((process) => process.spans)
      return inOrder(async () => {
        const last = await whole
        if (stored === undefined) await append({ ...last, complete: false }, spans)
        const { processes } = stored!
        const isWhole =
          processes.length === spans.length &&
          processes.every(({ members }, i) => recordsIn(members) * SPAN_RECORD_LENGTH === spans[i]!.length)
        if (isWhole) {
          const finished = last.processes.map((process, i) => ({
            ...process,
            members: processes[i]!.members,
          }))
          await replaceJson(dir, { ...last, processes: finished })
          return
        }
        const rewritten = partialOf(dir)
        try {
          await writeTo(rewritten, last, spans)
          await rename(dir, `${rewritten}.old`)
          await rename(rewritten, dir)
          await rm(`${rewritten}.old`, { recursive: true })
        } finally {
          await rm(rewritten, { recursive: true, force: true })
        }
      })
    },
  }
}

/**
 * Reads what {@link writeTrace} or {@link traceWriter} wrote. A record that was never finished has `complete: false`; what is missing
 * from it is told in `losses`. Throws `FILE` for what is missing, malformed or damaged otherwise, and `LIMIT` before anything is
 * allocated for more than the options allow.
 */
export async function readTrace(dir: string, options: ReadTraceOptions = {}): Promise<StoredRun> {
  const { maxSpanBytes = MAX_SPAN_BYTES, maxJsonBytes = MAX_JSON_BYTES } = options
  try {
    const stored = parseTrace(await readJson(join(dir, JSON_FILE), maxJsonBytes))
    const wantedBytes = stored.processes.reduce((sum, one) => sum + recordsIn(one.members) * RECORD_BYTES, 0)
    if (!(wantedBytes <= maxSpanBytes)) {
      throw new SeamError(
        'LIMIT',
        `the spans of ${dir} take ${wantedBytes} bytes, the limit is ${maxSpanBytes}; raise maxSpanBytes`,
      )
    }
    const losses: string[] = stored.complete
      ? []
      : ['the recording was never finished: what came after its last part is missing']
    const processes: ProcessTrace[] = []
    for (const [i, { members, ...process }] of stored.processes.entries()) {
      processes.push({ ...process, spans: await readSpans(dir, i, members, stored.complete, losses) })
    }
    return { ...stored, processes, losses }
  } catch (error) {
    throw SeamError.from(error, 'FILE')
  }
}

// ---- writing

/** All that is told of a trace beside its spans, as it stands now: the caller's lists grow on. */
function snapshot(trace: RunTrace): StoredTrace {
  if (trace.processes.length > MAX_PROCESSES) {
    throw new SeamError(
      'USAGE',
      `a trace of ${trace.processes.length} processes; at most ${MAX_PROCESSES} are kept`,
    )
  }
  const processes = trace.processes.map(({ spans, ...process }): StoredProcess => {
    if (spans.length % SPAN_RECORD_LENGTH !== 0) {
      throw new SeamError(
        'USAGE',
        `${process.name} has ${spans.length} numbers of spans, not a multiple of ${SPAN_RECORD_LENGTH}`,
      )
    }
    return { ...process, members: [] }
  })
  try {
    return parseTrace(JSON.stringify({ ...trace, processes }))
  } catch (cause) {
    throw new SeamError('USAGE', `the trace cannot be kept: ${(cause as Error).message}`, { cause })
  }
}

/** A process's facts after a further part. */
function merged(before: StoredProcess | undefined, part: StoredProcess): StoredProcess {
  if (before === undefined) return part
  return {
    ...part,
    dropped: before.dropped + part.dropped,
    peakRssBytes: Math.max(before.peakRssBytes, part.peakRssBytes),
    spanCostNs: part.spanCostNs === 0 ? before.spanCostNs : part.spanCostNs,
  }
}

async function writeTo(dir: string, stored: StoredTrace, spans: readonly Float64Array[]): Promise<void> {
  await prepare(dir)
  const processes: StoredProcess[] = []
  for (const [i, process] of stored.processes.entries()) {
    const members = await appendSpans(spansFile(dir, i), spans[i]!)
    processes.push({ ...process, members })
  }
  await replaceJson(dir, { ...stored, processes })
}

function unwritten(dir: string, error: unknown): SeamError {
  if (isSeamError(error)) return error
  return new SeamError('FILE', `${dir} cannot be written: ${(error as Error).message}`, { cause: error })
}

function partialOf(dir: string): string {
  return `${dir}.${process.pid}-${randomBytes(4).toString('hex')}.partial`
}

/** Calls `work` now; what it throws is the promise's, and is no unhandled rejection. */
function settled<T>(work: () => T): Promise<T> {
  const promise = (async () => work())()
  promise.catch(() => {})
  return promise
}

async function prepare(dir: string): Promise<void> {
  await requireEmpty(dir)
  await mkdir(dirname(dir), { recursive: true })
  await mkdir(dir).catch((error) => {
    if (error.code !== 'EEXIST') throw error
  })
  await syncFolder(dirname(dir))
}

async function requireEmpty(dir: string): Promise<void> {
  const names = await readdir(dir).catch((error) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  if (names.length > 0) {
    throw new SeamError(
      'FILE',
      `${dir} holds ${names.length} files already; a record is never overwritten, choose another folder`,
    )
  }
}

async function appendSpans(path: string, spans: Float64Array): Promise<Member[]> {
  const members: Member[] = []
  const handle = await open(path, 'a')
  try {
    const step = MAX_MEMBER_RECORDS * SPAN_RECORD_LENGTH
    for (let at = 0; at < spans.length; at += step) {
      const some = spans.subarray(at, at + step)
      const member = await compress(littleEndian(some), { level: constants.Z_BEST_SPEED })
      await handle.writeFile(member)
      members.push({ bytes: member.length, records: some.length / SPAN_RECORD_LENGTH })
    }
    await handle.datasync()
  } finally {
    await handle.close()
  }
  return members
}

/** Only after the spans it counts are on the disk. */
async function replaceJson(dir: string, stored: StoredTrace): Promise<void> {
  const partial = join(dir, `${JSON_FILE}.partial`)
  const handle = await open(partial, 'w')
  try {
    await handle.writeFile(`${JSON.stringify(stored)}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(partial, join(dir, JSON_FILE))
  await syncFolder(dir)
}

async function syncFolder(dir: string): Promise<void> {
  const handle = await open(dir, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

// ---- reading

async function readJson(path: string, maxBytes: number): Promise<string> {
  const handle = await open(path, READ)
  try {
    const size = await sizeOf(handle, path)
    if (size > maxBytes) {
      throw new SeamError('LIMIT', `${path} has ${size} bytes, the limit is ${maxBytes}; raise maxJsonBytes`)
    }
    return (await readAt(handle, 0, size, path)).toString('utf8')
  } finally {
    await handle.close()
  }
}

async function readSpans(
  dir: string,
  index: number,
  members: readonly Member[],
  isComplete: boolean,
  losses: string[],
): Promise<Float64Array> {
  const path = spansFile(dir, index)
  const handle = await open(path, READ)
  try {
    const size = await sizeOf(handle, path)
    let endBytes = 0
    const present = members.filter(({ bytes }) => {
      endBytes += bytes
      return endBytes <= size
    })
    if (size > endBytes) losses.push(`${path}: ${size - endBytes} bytes of an unfinished part are left out`)
    if (present.length < members.length) {
      const missing = `${path} has ${size} bytes of ${endBytes}`
      if (isComplete) throw new SeamError('FILE', `${missing}; the record is damaged`)
      losses.push(`${missing}: ${recordsIn(members) - recordsIn(present)} records are lost`)
    }
    for (const { bytes, records } of present) {
      if (records > MAX_MEMBER_RECORDS || records * RECORD_BYTES > bytes * MAX_INFLATION) {
        throw new SeamError(
          'FILE',
          `${path}: ${bytes} bytes cannot hold ${records} records; the record is damaged`,
        )
      }
    }
    const spans = new Float64Array(recordsIn(present) * SPAN_RECORD_LENGTH)
    const into = Buffer.from(spans.buffer)
    let readBytes = 0
    let filled = 0
    for (const { bytes, records } of present) {
      const packed = await readAt(handle, readBytes, bytes, path)
      const unpacked = await unpack(packed, records * RECORD_BYTES, path)
      unpacked.copy(into, filled)
      readBytes += bytes
      filled += unpacked.length
    }
    if (SWAPPED) into.swap64()
    return spans
  } finally {
    await handle.close()
  }
}

async function unpack(packed: Buffer, byteLength: number, path: string): Promise<Buffer> {
  const unpacked = await decompress(packed, { maxOutputLength: Math.max(1, byteLength) }).catch((error) => {
    const why = /larger than/.test(error.message)
      ? `a part holds more than the ${byteLength} B it is said to`
      : error.message
    throw new SeamError('FILE', `${path} is damaged: ${why}`, { cause: error })
  })
  if (unpacked.length === byteLength) return unpacked
  throw new SeamError(
    'FILE',
    `${path} has a part of ${unpacked.length} bytes instead of ${byteLength}; it is damaged`,
  )
}

async function sizeOf(handle: FileHandle, path: string): Promise<number> {
  const stat = await handle.stat()
  if (!stat.isFile()) throw new SeamError('FILE', `${path} is not a file`)
  return stat.size
}

async function readAt(
  handle: FileHandle,
  position: number,
  byteLength: number,
  path: string,
): Promise<Buffer> {
  const bytes = Buffer.alloc(byteLength)
  for (let done = 0; done < byteLength; ) {
    const { bytesRead } = await handle.read(bytes, done, byteLength - done, position + done)
    if (bytesRead === 0) throw new SeamError('FILE', `${path} ended early; something else changes it`)
    done += bytesRead
  }
  return bytes
}

function recordsIn(members: readonly Member[]): number {
  return members.reduce((sum, { records }) => sum + records, 0)
}

function spansFile(dir: string, index: number): string {
  return join(dir, `spans-${index}.f64.gz`)
}

function littleEndian(spans: Float64Array): Buffer {
  const bytes = Buffer.from(spans.buffer, spans.byteOffset, spans.byteLength)
  return SWAPPED ? Buffer.from(bytes).swap64() : bytes
}
