import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import type { Bundle } from '../src/evidence/bundle.ts'
import {
  checkFidelity,
  checkGuards,
  checkLock,
  checkRecords,
  checkScope,
  checkSessions,
} from '../src/evidence/checks.ts'
import type { FidelityRow } from '../src/evidence/derivations.ts'
import { deriveAll } from '../src/evidence/facts.ts'
import { goldenBundle, goldenChoice } from '../src/evidence/golden.ts'
import { problems } from '../src/evidence/problems.ts'
import { tokensSha256 } from '../src/session/guards.ts'
import type { StoredRecord } from '../src/session/record.ts'
import type { Session } from '../src/session/session.ts'

interface Changes {
  /** Of run 9. */
  readonly record?: (of: StoredRecord) => object
  readonly session?: (of: Session) => object
  readonly lost?: string
  readonly kept?: number
  readonly bundle?: object
}

/** The golden comparison, with something else about it. */
async function changed({ record, session, lost, kept = Infinity, bundle }: Changes): Promise<Bundle> {
  const golden = await goldenBundle()
  const [main] = golden.sessions
  const { stored } = main!
  const records = [...stored.records].slice(0, kept).map(([number, each]): [number, StoredRecord] => {
    return [number, number === 9 ? { ...each, ...record?.(each) } : each]
  })
  const of = { ...stored.session, ...session?.(stored.session) }
  const made = { ...main!, lost: lost ?? null, stored: { ...stored, session: of, records: new Map(records) } }
  return { ...golden, sessions: [made], ...bundle }
}

async function found(changes: Changes) {
  const bundle = await changed(changes)
  const all = problems()
  checkSessions(bundle, [], all)
  checkRecords(bundle, all)
  checkGuards(bundle, all)
  checkLock(bundle, all)
  return [...new Set(all.found.map(({ code, message }) => `${code}: ${message}`))]
}

const withTrace = (change: (of: NonNullable<StoredRecord['trace']>) => object) => ({
  record: ({ trace }: StoredRecord) => ({ trace: { ...trace, ...change(trace!) } }),
})

describe('checks of records', () => {
  it('the golden comparison has no problem', async () => expect(await found({})).toEqual([]))

  it('DIRTY: a build with changes that no commit holds', async () => {
    const session = ({ builds }: Session) => ({
      builds: { ...builds, head: { ...builds.head!, dirty: true } },
    })
    expect(await found({ session })).toEqual(['DIRTY: build head has changes that no commit holds'])
  })

  it('ORDER: a run by another build than the plan says', async () => {
    const record = ({ environment }: StoredRecord) => ({
      environment: { ...environment, commit: 'c'.repeat(40) },
    })
    expect(await found({ record })).toEqual([expect.stringMatching(/^ORDER: run by the commit c{40}/)])
  })

  it('ORDER: a copy that is not the same build as the base', async () => {
    const session = ({ builds }: Session) => ({
      builds: { ...builds, copy: { ...builds.copy!, distSha256: 'other' } },
    })
    expect(await found({ session })).toEqual(['ORDER: the copy is not the same build as the base'])
  })

  it('ORDER: a comparison without its lock', async () => {
    expect(await found({ bundle: { lock: null } })).toEqual([
      expect.stringContaining('serves a lock or a plan that is not in the bundle'),
    ])
  })

  it('ORDER: a choice in another order than its plan gives', async () => {
    const orders = (bundle: Bundle) => {
      const all = problems()
      checkSessions(bundle, [], all)
      return all.found.map(({ code, file }) => `${code} ${file}`)
    }
    const golden = await goldenChoice()
    expect(orders(golden)).toEqual([])
    expect(orders({ ...golden, plan: { ...golden.plan!, seed: 8 } })).toHaveLength(2) // they serve another plan
    const [survey, select, ...rest] = golden.sessions
    const { session } = select!.stored
    const runs = session.plan.runs.map((run, i) => {
      const other = session.plan.runs[session.plan.runs.length - 1 - i]!
      return { ...run, cell: other.cell, arm: other.arm }
    })
    const turned = {
      ...select!,
      stored: { ...select!.stored, session: { ...session, plan: { ...session.plan, runs } } },
    }
    expect(orders({ ...golden, sessions: [survey!, turned, ...rest] })).toContain(
      'ORDER sessions/select/session.json',
    )
  })

  it('LOCK: made after the session began', async () => {
    const session = () => ({ startedAt: '2025-12-31T23:00:00.000Z' })
    expect(await found({ session })).toEqual([expect.stringMatching(/^LOCK: begun at 2025-12-31/)])
  })

  it('RAW: stamps that go back, spans that were lost, tokens that are missing', async () => {
    const back = withTrace(({ sequences: [first, ...rest] }) => ({
      sequences: [{ ...first!, emittedNs: [...first!.emittedNs].reverse() }, ...rest],
    }))
    expect(await found(back)).toContainEqual(expect.stringMatching(/^RAW: stamps of sequence \d+ go back/))
    const lost = withTrace(({ processes: [first, ...rest] }) => ({
      processes: [{ ...first!, dropped: 3 }, ...rest],
    }))
    expect(await found(lost)).toContain('RAW: coordinator lost 3 spans')
    expect(await found({ ...lost, lost: 'spans were lost' })).toEqual([])
    const few = withTrace(({ sequences }) => ({ sequences: sequences.slice(1) }))
    expect(await found(few)).toContain('RAW: 1 sequences, the cell says 2')
  })

  it('RAW: an engine that computes two steps at once', async () => {
    const overlapping = withTrace(({ processes }) => ({
      processes: processes.map((process) => {
        const spans = process.spans.slice()
        const starts = [...spans.keys()].filter(
          (i) => i % SPAN_RECORD_LENGTH === 0 && spans[i] === SpanName.compute,
        )
        if (starts.length > 1) spans[starts[1]! + 1] = spans[starts[0]! + 1]!
        return { ...process, spans }
      }),
    }))
    expect(await found(overlapping)).toContainEqual(expect.stringMatching(/^RAW: .*overlap/))
  })

  it('CLOSURE: tokens of which spans are missing', async () => {
    const cut = withTrace(({ processes }) => ({
      processes: processes.map((process) =>
        process.stage === 1
          ? { ...process, spans: process.spans.slice(0, -30 * SPAN_RECORD_LENGTH) }
          : process,
      ),
    }))
    expect(await found(cut)).toContainEqual(
      expect.stringMatching(/^CLOSURE: \d+ tokens are in the trace only in part/),
    )
  })

  it('GUARD: figures of guards that the record does not show', async () => {
    const record = ({ guards }: StoredRecord) => ({ guards: { ...guards, bytesPerToken: '1' } })
    expect(await found({ record })).toEqual([
      expect.stringMatching(/^GUARD: guard bytesPerToken says 1, the record shows \d+$/),
      expect.stringMatching(/^GUARD: bytesPerToken is 1, in another run of paced it was \d+$/),
    ])
  })

  it('FIDELITY: other tokens', async () => {
    const record = ({ trace, guards }: StoredRecord) => {
      const sequences = trace!.sequences.map((each) => ({
        ...each,
        tokens: each.tokens.map((token) => token + 1),
      }))
      return {
        trace: { ...trace!, sequences },
        guards: { ...guards!, tokens: tokensSha256({ ...trace!, sequences }) },
      }
    }
    const bundle = await changed({ record })
    const all = problems()
    checkFidelity(deriveAll(bundle).values.fidelity as FidelityRow[], all)
    expect(all.found.map(({ code }) => code)).toEqual(['FIDELITY'])
    expect(await found({ record })).toEqual([expect.stringMatching(/^GUARD: tokens is/)])
  })

  it('RUN-MISSING in what is evidence; a session that proves nothing may lack runs', async () => {
    const session = () => ({ outcome: 'cut', reason: 'interrupted' })
    expect(await found({ session, kept: 23 })).toEqual([
      'RUN-MISSING: the plan names this run and it has no record',
      'RUN-MISSING: the outcome is cut: interrupted',
    ])
    expect(await found({ session, kept: 23, lost: 'interrupted' })).toEqual([])
  })

  it('SCOPE: what changed and the lock does not allow', async () => {
    const all = problems()
    const files = ['packages/codecs/src/a.ts', 'packages/.hidden', 'apps/bench/src/b.ts']
    checkScope(
      await goldenBundle(),
      files.map((path) => ({ path, sha256: 'x' })),
      all,
    )
    expect(all.found.map(({ message }) => message)).toEqual([
      'apps/bench/src/b.ts changed; the lock allows packages/**',
    ])
  })
})
