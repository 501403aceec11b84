import { SeamError } from '@seamline/core'

/** One workload, complete enough to be run again: what a scenario, a plan or a lock names. */
export type Cell = PipelineCell | MicroCell

/**
 * A chain of stages, or what it is compared with. `llama`, `paced` and `fake` are stages in worker processes (on transport `memory`:
 * in the process of the coordinator); `unsplit` is the whole model in one process without a seam; `llama-rpc` is llama.cpp's own split.
 */
export interface PipelineCell {
  readonly kind: 'pipeline'
  readonly executor: 'llama' | 'paced' | 'fake' | 'unsplit' | 'llama-rpc'
  /** A name in `benchmarks/models.json`; null for stages that do not compute. */
  readonly model: string | null
  readonly stages: number
  /** How long each stage waits for a step; for `paced` only. */
  readonly pacedMs: readonly number[] | null
  /** Hidden size of stages that do not compute; null where the model has it. */
  readonly embedding: number | null
  readonly codec: string
  readonly framing: string
  readonly transport: 'tcp' | 'ws' | 'relay' | 'memory' | 'none'
  /** Emulated, one way; null for the bare transport. */
  readonly link: { readonly delayMs: number; readonly bitsPerSecond: number | null } | null
  /** Sequences in flight: K. */
  readonly k: number
  readonly promptTokens: number
  /** New tokens of each sequence. */
  readonly tokens: number
  /** New tokens of a sequence before, which is not recorded. */
  readonly warmupTokens: number
  /** Tokens in a prefill chunk. */
  readonly chunk: number
  /** Positions of a sequence. */
  readonly ctx: number
  /** Compute threads of each stage. */
  readonly threads: number
  /** Of recording; prefill, bytes and peak RSS need level 1. */
  readonly level: 0 | 1 | 2
  /** A delay put in on purpose: never evidence of speed. */
  readonly injection: { readonly place: string; readonly stage: number; readonly delayMs: number } | null
}

/** A case of `pnpm bench`, timed alone in a process of its own. */
export interface MicroCell {
  readonly kind: 'micro'
  readonly id: string
  readonly timeMs: number
}

export const pipelineDefaults: Omit<PipelineCell, 'executor' | 'model'> = {
  kind: 'pipeline',
  stages: 2,
  pacedMs: null,
  embedding: null,
  codec: 'f32',
  framing: 'protobuf',
  transport: 'tcp',
  link: null,
  k: 1,
  promptTokens: 128,
  tokens: 64,
  warmupTokens: 16,
  chunk: 64,
  ctx: 512,
  threads: 1,
  level: 1,
  injection: null,
}

const executors = ['llama', 'paced', 'fake', 'unsplit', 'llama-rpc'] as const
const carriers = ['tcp', 'ws', 'relay', 'memory', 'none'] as const

/** Reads a cell from a file, with defaults. Throws `USAGE` naming the field, what it is and what it may be. */
export function parseCell(value: unknown, where: string): Cell {
  const given = asObject(value, where)
  if (given.kind === 'micro') {
    knownFields(given, ['kind', 'id', 'timeMs'], where)
    return {
      kind: 'micro',
      id: text(given.id, `${where}.id`),
      timeMs: whole(given.timeMs ?? 500, `${where}.timeMs`, 10, 600_000),
    }
  }
  knownFields(given, [...Object.keys(pipelineDefaults), 'executor', 'model'], where)
  const all = { ...pipelineDefaults, model: null, ...given } as Record<string, unknown>
  const at = (name: string) => `${where}.${name}`
  const executor = oneOf(all.executor, executors, at('executor'))
  const real = executor === 'llama' || executor === 'unsplit' || executor === 'llama-rpc'
  if (real !== (all.model !== null))
    throw new SeamError('USAGE', `${at('model')}: ${real ? 'is needed by' : 'means nothing to'} ${executor}`)
  const stages = whole(all.stages, at('stages'), 1, 64)
  const pacedMs = all.pacedMs === null ? null : numbers(all.pacedMs, at('pacedMs'), 0, 10_000)
  if ((executor === 'paced') !== (pacedMs !== null) || (pacedMs !== null && pacedMs.length !== stages))
    throw new SeamError(
      'USAGE',
      `${at('pacedMs')}: milliseconds for each of ${stages} stages, for executor paced only`,
    )
  const promptTokens = whole(all.promptTokens, at('promptTokens'), 1, 1 << 20)
  const tokens = whole(all.tokens, at('tokens'), 2, 1 << 20)
  const ctx = whole(all.ctx, at('ctx'), 2, 1 << 22)
  if (promptTokens + tokens > ctx)
    throw new SeamError(
      'USAGE',
      `${where}: ${promptTokens} prompt tokens and ${tokens} new ones exceed ctx ${ctx}`,
    )
  return {
    kind: 'pipeline',
    ...{ executor, stages, pacedMs, promptTokens, tokens, ctx },
    model: real ? text(all.model, at('model')) : null,
    embedding: real ? null : whole(all.embedding ?? 2048, at('embedding'), 32, 65_536),
    codec: text(all.codec, at('codec')),
    framing: text(all.framing, at('framing')),
    transport: executor === 'unsplit' ? 'none' : oneOf(all.transport, carriers, at('transport')),
    link: all.link === null ? null : linkOf(all.link, at('link')),
    k: whole(all.k, at('k'), 1, 64),
    warmupTokens: whole(all.warmupTokens, at('warmupTokens'), 0, 1 << 16),
    chunk: whole(all.chunk, at('chunk'), 1, 1 << 16),
    threads: whole(all.threads, at('threads'), 1, 1024),
    level: whole(all.level, at('level'), 0, 2) as 0 | 1 | 2,
    injection: all.injection === null ? null : injectionOf(all.injection, at('injection')),
  }
}

/** A line that tells cells apart: `llama 1.1b-q4_0 x2 f32 protobuf tcp K=1 128+64`. */
export function cellLabel(cell: Cell): string {
  if (cell.kind === 'micro') return cell.id
  const { executor, model, pacedMs, stages, codec, framing, transport, link, k, promptTokens, tokens } = cell
  const what = [executor, model ?? (pacedMs === null ? '' : `${pacedMs.join('+')} ms`)]
  const seam = transport === 'none' ? [] : [`x${stages}`, codec, framing, transport]
  const shaped =
    link === null
      ? []
      : [
          `${link.delayMs} ms${link.bitsPerSecond === null ? '' : ` ${link.bitsPerSecond / 1e6} Mbit/s`} emulated`,
        ]
  return [...what, ...seam, ...shaped, `K=${k}`, `${promptTokens}+${tokens}`]
    .filter((part) => part !== '')
    .join(' ')
}

function linkOf(value: unknown, where: string): NonNullable<PipelineCell['link']> {
  const link = asObject(value, where)
  knownFields(link, ['delayMs', 'bitsPerSecond'], where)
  const { delayMs, bitsPerSecond = null } = link
  return {
    delayMs: real(delayMs, `${where}.delayMs`, 0, 10_000),
    bitsPerSecond: bitsPerSecond === null ? null : real(bitsPerSecond, `${where}.bitsPerSecond`, 1000, 1e12),
  }
}

function injectionOf(value: unknown, where: string): NonNullable<PipelineCell['injection']> {
  const given = asObject(value, where)
  knownFields(given, ['place', 'stage', 'delayMs'], where)
  return {
    place: text(given.place, `${where}.place`),
    stage: whole(given.stage, `${where}.stage`, 0, 63),
    delayMs: real(given.delayMs, `${where}.delayMs`, 0, 10_000),
  }
}

export function asObject(value: unknown, where: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw new SeamError('USAGE', `${where}: an object is needed, not ${shown(value)}`)
}

export function knownFields(given: Record<string, unknown>, known: readonly string[], where: string): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new SeamError('USAGE', `${where}.${unknown}: there is no such field; known are ${known.join(', ')}`)
}

export function text(value: unknown, where: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= 4096) return value
  throw new SeamError('USAGE', `${where}: a text is needed, not ${shown(value)}`)
}

export function real(value: unknown, where: string, minimum: number, maximum: number): number {
  if (typeof value === 'number' && value >= minimum && value <= maximum) return value
  throw new SeamError(
    'USAGE',
    `${where}: a number from ${minimum} to ${maximum} is needed, not ${shown(value)}`,
  )
}

export function whole(value: unknown, where: string, minimum: number, maximum: number): number {
  if (Number.isInteger(value)) return real(value, where, minimum, maximum)
  throw new SeamError(
    'USAGE',
    `${where}: a whole number from ${minimum} to ${maximum} is needed, not ${shown(value)}`,
  )
}

export function numbers(value: unknown, where: string, minimum: number, maximum: number): number[] {
  if (!Array.isArray(value))
    throw new SeamError('USAGE', `${where}: a list of numbers is needed, not ${shown(value)}`)
  return value.map((each, i) => real(each, `${where}[${i}]`, minimum, maximum))
}

export function oneOf<T extends string>(value: unknown, choices: readonly T[], where: string): T {
  const found = choices.find((choice) => choice === value)
  if (found !== undefined) return found
  throw new SeamError('USAGE', `${where}: one of ${choices.join(', ')} is needed, not ${shown(value)}`)
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 80)
}
