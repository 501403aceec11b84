import { SeamError } from '@seamline/core'
import type { ProcessTrace, RunSettings, RunTrace, SequenceTrace } from './trace.ts'

/** One gzip member of a file of spans: what one part added to it. */
export interface Member {
  /** As it lies in the file. */
  readonly bytes: number
  readonly records: number
}

export interface StoredProcess extends Omit<ProcessTrace, 'spans'> {
  readonly members: readonly Member[]
}

/** What `trace.json` holds: a trace whose spans are elsewhere. */
export interface StoredTrace extends Omit<RunTrace, 'processes'> {
  readonly processes: readonly StoredProcess[]
}

export const MAX_PROCESSES = 1024
const MAX_SEQUENCES = 65_536
const MAX_COUNT = 1 << 24
/** Tags of spans tell sequences below it apart: see `spanTag`. */
const MAX_SEQUENCE = 2 ** 29 - 1
const MAX_TOKEN_ID = 2 ** 31 - 1
const MAX_TEXT = 1024
const MAX_ARGUMENT = 65_536

/** Reads and checks every field; throws `FILE` naming the first that is not what it must be. Unknown fields are dropped. */
export function parseTrace(text: string): StoredTrace {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new SeamError('FILE', 'trace.json is not JSON; the record is damaged', { cause: error })
  }
  const at = fields(value, 'trace')
  const format = at.text('format')
  if (format !== 'seamline-trace/1') {
    throw new SeamError('FILE', `trace.json has the format ${format.slice(0, 64)}, not seamline-trace/1`)
  }
  const processes = at.list('processes', storedProcess)
  if (processes.length > MAX_PROCESSES) {
    throw new SeamError(
      'FILE',
      `trace.json has ${processes.length} processes, more than ${MAX_PROCESSES}; it is damaged`,
    )
  }
  return {
    format,
    complete: at.flag('complete'),
    level: at.oneOf('level', [0, 1, 2, 3] as const),
    settings: settings(at.get('settings')),
    processes,
    sequences: at.list('sequences', sequence, MAX_SEQUENCES),
    ...(at.has('wireBytes') && { wireBytes: at.list('wireBytes', countOrNull, MAX_PROCESSES) }),
  }
}

function countOrNull(value: unknown, path: string): number | null {
  if (value === null) return null
  return integer(value, path, 0)
}

function settings(value: unknown): RunSettings {
  const at = fields(value, 'settings')
  const link = at.has('link') ? fields(at.get('link'), 'settings.link') : undefined
  const injected = at.has('injected') ? fields(at.get('injected'), 'settings.injected') : undefined
  return {
    startedAt: at.text('startedAt'),
    command: at.list('command', argument),
    model: at.text('model'),
    modelSha256: at.text('modelSha256'),
    manifestSha256: at.text('manifestSha256'),
    engine: at.text('engine'),
    backend: at.text('backend'),
    stages: at.positive('stages', MAX_PROCESSES),
    threads: at.count('threads', MAX_COUNT),
    sequences: at.positive('sequences', MAX_SEQUENCES),
    rowsPerStep: at.positive('rowsPerStep', MAX_SEQUENCES),
    chunkTokens: at.positive('chunkTokens', MAX_COUNT),
    embedding: at.positive('embedding', MAX_COUNT),
    transport: at.text('transport'),
    framing: at.text('framing'),
    codec: at.text('codec'),
    ...(link && {
      link: {
        delayMs: link.number('delayMs', 0),
        ...(link.has('bitsPerSecond') && { bitsPerSecond: link.number('bitsPerSecond', 1) }),
      },
    }),
    paced: at.flag('paced'),
    ...(injected && { injected: { place: injected.text('place'), delayNs: injected.number('delayNs', 0) } }),
    ...(at.has('severalHosts') && at.flag('severalHosts') && { severalHosts: true as const }),
    busyThreads: at.count('busyThreads', MAX_COUNT),
    cores: at.positive('cores', MAX_COUNT),
  }
}

function storedProcess(value: unknown, path: string): StoredProcess {
  const at = fields(value, path)
  return {
    name: at.text('name'),
    role: at.oneOf('role', ['coordinator', 'stage', 'relay'] as const),
    stage: at.integer('stage'),
    layerFirst: at.integer('layerFirst', -1, MAX_COUNT),
    layerEnd: at.integer('layerEnd', -1, MAX_COUNT),
    dropped: at.count('dropped'),
    peakRssBytes: at.count('peakRssBytes'),
    spanCostNs: at.number('spanCostNs', 0),
    members: at.list('members', (member, memberPath) => {
      const of = fields(member, memberPath)
      return { bytes: of.count('bytes'), records: of.count('records') }
    }),
  }
}

function sequence(value: unknown, path: string): SequenceTrace {
  const at = fields(value, path)
  return {
    sequence: at.count('sequence', MAX_SEQUENCE),
    promptTokens: at.positive('promptTokens', MAX_COUNT),
    acceptedNs: at.count('acceptedNs'),
    emittedNs: at.list('emittedNs', stamp),
    tokens: at.list('tokens', tokenId),
  }
}

function fields(value: unknown, path: string) {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrong(path, 'an object', value)
  const here = value as Record<string, unknown>
  const has = (key: string) => Object.hasOwn(here, key)
  const get = (key: string) => (has(key) ? here[key] : undefined)
  const named = (key: string) => `${path}.${key}`
  return {
    has,
    get,
    text: (key: string) => text(get(key), named(key)),
    integer: (key: string, least?: number, most?: number) => integer(get(key), named(key), least, most),
    count: (key: string, most?: number) => integer(get(key), named(key), 0, most),
    positive: (key: string, most: number) => integer(get(key), named(key), 1, most),
    number(key: string, least: number): number {
      const number = get(key)
      if (typeof number !== 'number' || !Number.isFinite(number) || number < least)
        throw wrong(named(key), `a number of at least ${least}`, number)
      return number
    },
    flag(key: string): boolean {
      const flag = get(key)
      if (typeof flag !== 'boolean') throw wrong(named(key), 'true or false', flag)
      return flag
    },
    oneOf<T>(key: string, allowed: readonly T[]): T {
      const one = get(key) as T
      if (!allowed.includes(one)) throw wrong(named(key), `one of ${allowed.join(', ')}`, one)
      return one
    },
    list<T>(key: string, read: (value: unknown, path: string) => T, most = Infinity): T[] {
      const list = get(key)
      if (!Array.isArray(list)) throw wrong(named(key), 'a list', list)
      if (list.length > most) throw wrong(named(key), `a list of at most ${most}`, list.length)
      return list.map((one, i) => read(one, `${named(key)}[${i}]`))
    },
  }
}

const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u

function text(value: unknown, path: string): string {
  if (typeof value !== 'string' || value.length > MAX_TEXT)
    throw wrong(path, `a string of at most ${MAX_TEXT} characters`, value)
  // A terminal would obey them, or show the text otherwise than it is.
  if (CONTROL.test(value)) throw wrong(path, 'a string without control characters', value)
  return value
}

function argument(value: unknown, path: string): string {
  if (typeof value === 'string' && value.length <= MAX_ARGUMENT) return value
  throw wrong(path, `a string of at most ${MAX_ARGUMENT} characters`, value)
}

function integer(
  value: unknown,
  path: string,
  least = Number.MIN_SAFE_INTEGER,
  most = Number.MAX_SAFE_INTEGER,
): number {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most)
    return value as number
  throw wrong(path, `a whole number from ${least} to ${most}`, value)
}

function stamp(value: unknown, path: string): number {
  return integer(value, path, 0)
}

function tokenId(value: unknown, path: string): number {
  return integer(value, path, 0, MAX_TOKEN_ID)
}

function wrong(path: string, expected: string, value: unknown): SeamError {
  const shown = String(typeof value === 'string' ? JSON.stringify(value.slice(0, 80)) : JSON.stringify(value))
    .slice(0, 64)
    .replace(new RegExp(CONTROL, 'gu'), '?')
  return new SeamError('FILE', `trace.json: ${path} is ${shown}, not ${expected}; the record is damaged`)
}
