import type { Profiler } from 'node:inspector'
import { Session } from 'node:inspector/promises'

/** Between samples: below 100 us V8 takes samples no closer and much slower. */
const intervalUs = 100

export type CpuProfile = Profiler.Profile

/** Starts sampling the JavaScript thread of this process; what it returns ends that and gives the profile. Only one at a time. */
export async function startCpuProfile(): Promise<() => Promise<CpuProfile>> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.setSamplingInterval', { interval: intervalUs })
  await session.post('Profiler.start')
  return async () => {
    try {
      return (await session.post('Profiler.stop')).profile
    } finally {
      session.disconnect()
    }
  }
}

/** What one function took by itself, without what it called. */
export interface SelfTime {
  /** `(idle)`, `(program)` and `(garbage collector)` are V8's own. */
  readonly name: string
  readonly url: string
  /** From 1; 0 for what has no source. */
  readonly line: number
  readonly selfMs: number
  /** Of the whole profile. */
  readonly share: number
}

const hasSource = (url: string) => url !== '' && !url.startsWith('wasm:')

/** Functions by self time, the longest first. A sample counts until the next one, as in DevTools and speedscope. */
export function selfTimes({
  nodes,
  samples = [],
  timeDeltas = [],
  startTime,
  endTime,
}: CpuProfile): SelfTime[] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const totals = new Map<string, { name: string; url: string; line: number; us: number }>()
  let at = startTime
  for (const [i, id] of samples.entries()) {
    at += timeDeltas[i]!
    const us = Math.max(0, i + 1 < samples.length ? timeDeltas[i + 1]! : endTime - at)
    const { functionName, url, lineNumber } = frames.get(id)!
    const name = functionName === '' ? '(anonymous)' : functionName
    const key = `${name} ${url}:${lineNumber}`
    const total = totals.get(key) ?? { name, url, line: hasSource(url) ? lineNumber + 1 : 0, us: 0 }
    total.us += us
    totals.set(key, total)
  }
  const all = [...totals.values()].reduce((sum, { us }) => sum + us, 0)
  return [...totals.values()]
    .sort((a, b) => b.us - a.us)
    .map(({ us, ...where }) => ({ ...where, selfMs: us / 1000, share: us / all }))
}
