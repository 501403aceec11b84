import { readFile } from 'node:fs/promises'
import { SeamError } from '@seamline/core'
import picomatch from 'picomatch'
import { canonicalJson, sha256 } from '../session/canonical.ts'
import {
  asObject,
  type Cell,
  knownFields,
  numbers,
  oneOf,
  parseCell,
  real,
  text,
  whole,
} from '../session/cell.ts'
import {
  type GuardName,
  type Guards,
  guardNames,
  type MetricName,
  type MetricValues,
  metricNames,
} from '../session/record.ts'

/** A before/after benchmark, frozen before the change exists. */
export interface Lock {
  readonly schema: 'seamline-lock/1'
  /** SHA-256 of the canonical JSON without this field. */
  readonly lockId: string
  readonly createdAt: string
  /** What was built when the guards and the baseline were recorded. */
  readonly commit: string
  readonly bottleneck: {
    readonly category: string
    /** Where: a process, a link, or `everywhere`. */
    readonly place: string
    /** SHA-256 of the plan and of the selection that named it. */
    readonly planSha256: string
    readonly selectionSha256: string
  }
  readonly hypothesis: {
    /** One sentence. */
    readonly change: string
    /** Globs of what may differ between the two revisions. */
    readonly allowedPaths: readonly string[]
    /** Of the primary metric, in percent of it as it was. */
    readonly predictedPct: readonly [low: number, high: number] | null
  }
  readonly primary: {
    readonly cell: string
    readonly metric: MetricName
    /** Less than this counts as nothing. */
    readonly minimumEffectPct: number
    readonly alpha: number
  }
  readonly secondaries: readonly { readonly cell: string; readonly metric: MetricName }[]
  readonly design: {
    readonly order: 'ABBA'
    readonly seed: number
    readonly freshProcesses: true
    readonly cooldownMs: number
    readonly stop: 'fixed-n'
    /** By cell. */
    readonly pairs: Readonly<Record<string, { readonly pairs: number; readonly aaPairs: number }>>
  }
  readonly cells: Readonly<Record<string, Cell>>
  /** By cell: what one run found. A run that differs in one of these is not comparable. */
  readonly guards: Readonly<Record<string, Guards>>
  /** By cell: medians of runs when the lock was made; later ones must be near. */
  readonly baseline: Readonly<Record<string, MetricValues>>
  /** Of the code that derives. */
  readonly analyserSha256: string
}

const fields = [
  ...['schema', 'lockId', 'createdAt', 'commit', 'bottleneck', 'hypothesis', 'primary', 'secondaries'],
  ...['design', 'cells', 'guards', 'baseline', 'analyserSha256'],
]
const mostPairs = 200

export function lockIdOf(lock: Omit<Lock, 'lockId'>): string {
  const { lockId: _, ...rest } = lock as Lock
  return sha256(canonicalJson(rest))
}

/** Those of `paths` that no glob of the lock allows to differ. */
export function outsideOf({ hypothesis }: Lock, paths: readonly string[]): string[] {
  const isAllowed = picomatch([...hypothesis.allowedPaths], { dot: true })
  return paths.filter((path) => !isAllowed(path))
}

/** Throws as {@link parseLock}, and `FILE` for a file that cannot be read. */
export async function readLock(file: string): Promise<Lock> {
  let value: unknown
  try {
    value = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if (error instanceof SyntaxError) throw new SeamError('USAGE', `${file} is no JSON: ${error.message}`)
    throw SeamError.from(error, 'FILE')
  }
  return parseLock(value)
}

/** Throws `USAGE` naming the field that is wrong, `MISMATCH` when the lock is not the one that its id names. */
export function parseLock(value: unknown): Lock {
  const lock = asObject(value, 'lock')
  knownFields(lock, fields, 'lock')
  oneOf(lock.schema, ['seamline-lock/1'], 'lock.schema')
  for (const name of ['lockId', 'createdAt', 'commit', 'analyserSha256']) text(lock[name], `lock.${name}`)
  const cells = asObject(lock.cells, 'lock.cells')
  for (const [name, cell] of Object.entries(cells)) parseCell(cell, `lock.cells.${name}`)
  const names = Object.keys(cells)
  const target = (value: unknown, where: string) => {
    const { cell, metric } = asObject(value, where)
    oneOf(cell, names, `${where}.cell`)
    oneOf(metric, metricNames, `${where}.metric`)
  }
  const primary = asObject(lock.primary, 'lock.primary')
  knownFields(primary, ['cell', 'metric', 'minimumEffectPct', 'alpha'], 'lock.primary')
  target(primary, 'lock.primary')
  real(primary.minimumEffectPct, 'lock.primary.minimumEffectPct', 0.01, 100)
  real(primary.alpha, 'lock.primary.alpha', 0.001, 0.2)
  if (!Array.isArray(lock.secondaries)) throw new SeamError('USAGE', 'lock.secondaries: a list is needed')
  for (const [i, each] of lock.secondaries.entries()) target(each, `lock.secondaries[${i}]`)
  const bottleneck = asObject(lock.bottleneck, 'lock.bottleneck')
  for (const name of ['category', 'place', 'planSha256', 'selectionSha256'])
    text(bottleneck[name], `lock.bottleneck.${name}`)
  const hypothesis = asObject(lock.hypothesis, 'lock.hypothesis')
  text(hypothesis.change, 'lock.hypothesis.change')
  if (!Array.isArray(hypothesis.allowedPaths) || hypothesis.allowedPaths.length === 0)
    throw new SeamError('USAGE', 'lock.hypothesis.allowedPaths: a list with at least one glob is needed')
  for (const glob of hypothesis.allowedPaths) text(glob, 'lock.hypothesis.allowedPaths')
  if (hypothesis.predictedPct !== null)
    numbers(hypothesis.predictedPct, 'lock.hypothesis.predictedPct', -100, 1000)
  const design = asObject(lock.design, 'lock.design')
  oneOf(design.order, ['ABBA'], 'lock.design.order')
  oneOf(design.stop, ['fixed-n'], 'lock.design.stop')
  whole(design.seed, 'lock.design.seed', 0, 0xffffffff)
  whole(design.cooldownMs, 'lock.design.cooldownMs', 0, 600_000)
  const pairs = asObject(design.pairs, 'lock.design.pairs')
  for (const name of names) {
    const { pairs: n, aaPairs } = asObject(pairs[name], `lock.design.pairs.${name}`)
    whole(n, `lock.design.pairs.${name}.pairs`, 6, mostPairs)
    whole(aaPairs, `lock.design.pairs.${name}.aaPairs`, 6, mostPairs)
    const guards = asObject(asObject(lock.guards, 'lock.guards')[name], `lock.guards.${name}`)
    knownFields(guards, guardNames as readonly GuardName[], `lock.guards.${name}`)
    for (const guard of guardNames) text(guards[guard], `lock.guards.${name}.${guard}`)
    asObject(asObject(lock.baseline, 'lock.baseline')[name], `lock.baseline.${name}`)
  }
  const id = lockIdOf(lock as unknown as Lock)
  if (id !== lock.lockId)
    throw new SeamError(
      'MISMATCH',
      `the lock says it is ${lock.lockId} and is ${id}: it was changed after it was made`,
    )
  return lock as unknown as Lock
}
