import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SpanName, SpanPort } from '@seamline/core'
import type { RunTrace } from '@seamline/profiler'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Draw, type SimulatedRun, simulate } from '../../../packages/profiler/test/simulator.ts'
import { injectors } from '../src/select/gains.ts'
import {
  injectionPlan,
  parsePlan,
  planSha256,
  readPlan,
  type SelectPlan,
  selectionPlan,
  surveyPlan,
} from '../src/select/plan.ts'
import { selectionText, surveyText } from '../src/select/print.ts'
import { selectionOf, surveyOf } from '../src/select/selection.ts'
import { derivedJson } from '../src/session/canonical.ts'
import type { StoredRecord } from '../src/session/record.ts'
import { runSession, thisBuild } from '../src/session/run-session.ts'
import type { Session, SessionPlan } from '../src/session/session.ts'
import { readSession, type StoredSession } from '../src/session/store.ts'

const MS = 1_000_000
const paced = { executor: 'paced', pacedMs: [2, 2], embedding: 64, promptTokens: 8, tokens: 16, ctx: 64 }
const given = { schema: 'seamline-plan/1', name: 'test', target: 'tpot', seed: 3, cells: { chain: paced } }
const planned = (changes: object = {}) => parsePlan({ ...given, ...changes })

const chain: SimulatedRun = {
  ...{ stages: 2, sequences: 1, tokens: 8, computeNs: [2 * MS, 2 * MS], delayNs: [5 * MS, 5 * MS] },
  ...{ promptTokens: 8, jitter: 0.05, costsNs: { 'frame.encode': 0.2 * MS, emit: 0.1 * MS } },
}

/** A session as if it had been run: every run is a simulation with another seed. */
function simulated(
  plan: SessionPlan,
  options: SimulatedRun,
  change: (trace: RunTrace, run: number) => RunTrace = (trace) => trace,
): StoredSession {
  const records = plan.runs.map(({ number, cell: name }): [number, StoredRecord] => {
    const cell = plan.cells[name]!
    const isDelayed = cell.kind === 'pipeline' && cell.injection !== null
    const inject = ({ category, place, port }: Draw) =>
      isDelayed && category === 'wire.first' && place === 0 && port === SpanPort.hiddenIn ? 3 * MS : 0
    const { trace } = simulate({ ...options, seed: number, inject })
    const seen = change(isDelayed ? delayed(trace) : trace, number)
    return [number, { status: 'done', cell, trace: seen, micro: null, external: null } as StoredRecord]
  })
  return { dir: '', session: { plan } as Session, records: new Map(records) }
}

/** With a note of the injector, which is after the first request. */
function delayed(trace: RunTrace): RunTrace {
  const atNs = trace.sequences[0]!.acceptedNs + 1
  const note = [SpanName.injected, atNs, atNs + 3 * MS, 0, 0, 0]
  const processes = trace.processes.map((process, i) =>
    i === 2 ? { ...process, spans: Float64Array.from([...process.spans, ...note]) } : process,
  )
  return {
    ...trace,
    processes,
    settings: { ...trace.settings, injected: { place: 'wire', delayNs: 3 * MS } },
  }
}

function selected(plan: SelectPlan, options: SimulatedRun, injection?: StoredSession) {
  return selectionOf(plan, 'chain', simulated(selectionPlan(plan, 'chain'), options), injection)
}

describe('a selection', () => {
  const plan = planned({ floors: 'none' })
  const { place, stage } = injectors['wire.first']!
  const injection = simulated(injectionPlan(plan, 'chain', place, stage), chain)

  it('finds the wire of a chain that mostly waits for it', () => {
    const found = selected(plan, chain, injection)
    expect(found).toMatchObject({ verdict: 'SELECTED', winner: 'wire.first', runs: 10, cell: 'chain' })
    expect(found.rules.filter(({ holds }) => !holds)).toEqual([])
    // The same runs without a wire, by the simulation itself.
    const runs = selectionPlan(plan, 'chain').runs.filter(({ cell }) => cell === 'chain')
    const truths = runs.map(({ number: seed }) => {
      const scale = ({ category }: Draw) => (category === 'wire.first' ? 0 : 1)
      return 100 * (1 - simulate({ ...chain, seed, scale }).tpotNs / simulate({ ...chain, seed }).tpotNs)
    })
    for (const [i, gain] of found.ranked[0]!.gainsPct.entries()) expect(gain).toBeCloseTo(truths[i]!, 0)
    expect(selectionText(found)).toContain('SELECTED: wire.first')
  })

  it('gives the same bytes again, as numbers of JSON', () => {
    const text = derivedJson(selected(plan, chain, injection))
    expect(derivedJson(selected(plan, chain, injection))).toBe(text)
    expect(derivedJson(JSON.parse(text))).toBe(text)
  })

  it('stays open before a delay was tried, and where it was put in elsewhere', () => {
    const rules = (other?: StoredSession) => selected(plan, chain, other).rules
    const elsewhere = simulated(injectionPlan(plan, 'chain', 'codec', 0), chain)
    for (const found of [rules(), rules(elsewhere)])
      expect(found.filter(({ holds }) => !holds).map(({ rule }) => rule)).toEqual(['e'])
  })

  it('says that an engine is the bottleneck when the seam has nothing to give', () => {
    const found = selected(planned(), { ...chain, computeNs: [40 * MS, 40 * MS] })
    expect(found).toMatchObject({ verdict: 'COMPUTE-BOUND', winner: null })
  })

  it('says that a wire is at its floor', () => {
    const found = selected(planned(), { ...chain, jitter: 0 })
    expect(found.verdict).toBe('FLOOR-BOUND')
    expect(found.text).toContain('wire.first takes')
  })

  it('finds a structure that costs the first token', () => {
    const open = { ...chain, costsNs: { ...chain.costsNs, open: 40 * MS } }
    const found = selected(planned({ target: 'ttft' }), open)
    expect(found.winner).toBe('open, pipelined')
    expect(found.ranked[0]!.floor).toContain('replay')
  })

  it('takes no run that failed, was cut or had a delay in it', () => {
    const stored = simulated(selectionPlan(plan, 'chain'), chain)
    const [first, second, third] = stored.session.plan.runs.filter(({ cell }) => cell === 'chain')
    const records = new Map(stored.records)
    const change = (number: number, changed: (record: StoredRecord) => StoredRecord) =>
      records.set(number, changed(records.get(number)!))
    change(first!.number, (record) => ({ ...record, status: 'failed' }))
    change(second!.number, (record) => ({ ...record, trace: { ...record.trace!, complete: false } }))
    change(third!.number, (record) => ({ ...record, trace: delayed(record.trace!) }))
    const found = selectionOf(plan, 'chain', { ...stored, records }, undefined)
    expect(found).toMatchObject({ verdict: 'NOISE-LIMITED', runs: 7 })
    expect(found.text).toContain('7 runs, need n = 10')
  })

  it('takes no runs with more busy threads than cores', () => {
    const stored = simulated(selectionPlan(plan, 'chain'), chain, (trace) => ({
      ...trace,
      settings: { ...trace.settings, busyThreads: 9, cores: 2 },
    }))
    expect(selectionOf(plan, 'chain', stored, undefined).verdict).toBe('OVERSUBSCRIBED')
  })

  it('looks at both ends of the band where there are several hosts', () => {
    const stored = simulated(selectionPlan(plan, 'chain'), chain, (trace) => ({
      ...trace,
      settings: { ...trace.settings, severalHosts: true },
    }))
    const { rules } = selectionOf(plan, 'chain', stored, undefined)
    expect(rules.find(({ rule }) => rule === 'f')!.found).toContain('low ends: wire.first')
  })
})

describe('a plan', () => {
  it('has the runs that it says, each cell in an order of its seed', () => {
    const plan = planned()
    const counts = (runs: SessionPlan['runs']) => {
      const found: Record<string, number> = {}
      for (const { cell } of runs) found[cell] = (found[cell] ?? 0) + 1
      return found
    }
    expect(counts(surveyPlan(plan).runs)).toEqual({ chain: 3 })
    expect(counts(selectionPlan(plan, 'chain').runs)).toEqual({ chain: 10, 'chain level 2': 3 })
    expect(counts(injectionPlan(plan, 'chain', 'wire', 1).runs)).toEqual({ chain: 6, 'chain delayed': 6 })
    expect(selectionPlan(plan, 'chain')).toEqual(selectionPlan(planned(), 'chain'))
    const { runs } = selectionPlan(planned({ seed: 4 }), 'chain')
    expect(runs).not.toEqual(selectionPlan(plan, 'chain').runs)
    expect(selectionPlan(plan, 'chain')).toMatchObject({ purpose: 'select', serves: planSha256(plan) })
  })

  it.each([
    [{ schema: 'other' }, 'plan.schema'],
    [{ target: 'throughput' }, 'plan.target: one of ttft, prefill, tpot'],
    [{ selectRuns: 9 }, 'plan.selectRuns: a number from 10'],
    [{ level2Runs: 2 }, 'plan.level2Runs'],
    [{ injectionRuns: 5 }, 'plan.injectionRuns'],
    [{ alpha: 0.5 }, 'plan.alpha'],
    [{ floors: 'guessed' }, 'plan.floors'],
    [{ candidates: ['compute.device'] }, 'plan.candidates[0]'],
    [{ candidates: [] }, 'plan.candidates: a list'],
    [{ cells: {} }, 'at least one cell'],
    [{ cells: { a: { ...paced, level: 0 } } }, 'plan.cells.a: pipelines'],
    [{ cells: { a: { ...paced, injection: { place: 'wire', stage: 1, delayMs: 1 } } } }, 'plan.cells.a'],
    [{ cells: { a: { executor: 'unsplit', model: 'm' } } }, 'plan.cells.a: pipelines'],
    [{ cells: { a: { kind: 'micro', id: 'codec' } } }, 'plan.cells.a: pipelines'],
    [{ extra: 1 }, 'plan.extra'],
  ])('is refused with %o', (change, message) => {
    expect(() => planned(change)).toThrow(expect.objectContaining({ code: 'USAGE' }))
    expect(() => planned(change)).toThrow(message)
  })

  it('is in every file of the repository that says so', async () => {
    const folder = join(import.meta.dirname, '../../../benchmarks/plans')
    const files = await readdir(folder)
    expect(files).toContain('paced-link.json')
    for (const file of files) await expect(readPlan(join(folder, file))).resolves.toHaveProperty('cells')
  })

  it('has another hash with anything else in it, but not with what is so anyway', () => {
    expect(planSha256(planned({ minimumEffectPct: 3 }))).toBe(planSha256(planned()))
    expect(planSha256(planned({ minimumEffectPct: 4 }))).not.toBe(planSha256(planned()))
    expect(planSha256(planned({ floors: 'none' }))).not.toBe(planSha256(planned()))
  })

  it('names the cells it has where it lacks one', () => {
    expect(() => selectionPlan(planned(), 'other')).toThrow('it has chain')
    expect(() => selectionPlan(planned(), 'toString')).toThrow('it has chain')
  })
})

describe('a survey of real runs', () => {
  let dir = ''
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'seamline-select-'))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  it('sees the emulated link', async () => {
    const file = join(dir, 'plan.json')
    const cells = { chain: { ...paced, link: { delayMs: 5 }, warmupTokens: 2 } }
    await writeFile(file, JSON.stringify({ ...given, cells, surveyRuns: 1, floors: 'none' }))
    const plan = await readPlan(file)
    const ui = { json: false, print() {}, record() {}, note() {}, progress() {} }
    const context = { ui, signal: new AbortController().signal }
    await runSession(context, join(dir, 'survey'), surveyPlan(plan), { here: await thisBuild() })
    const survey = surveyOf(plan, await readSession(join(dir, 'survey')))
    const row = survey.rows.find(({ target }) => target === 'tpot')!
    expect(row).toMatchObject({ cell: 'chain', runs: 1, failed: 0, gatesPassed: 1 })
    expect(row.candidates[0]!.name).toBe('wire.first')
    expect(row.largest!.category).toBe('wire.first')
    expect(surveyText(plan, survey)).toContain('wire.first')
  })

  it('needs a plan that is there and is JSON', async () => {
    const file = join(dir, 'broken.json')
    await writeFile(file, '{')
    await expect(readPlan(file)).rejects.toMatchObject({ code: 'USAGE' })
    await expect(readPlan(join(dir, 'none.json'))).rejects.toMatchObject({ code: 'FILE' })
  })
})
