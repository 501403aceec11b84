import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { sessionsIn } from '../src/compare/sessions.ts'
import { writeRecord, writeSession } from '../src/session/store.ts'
import { comparisonInput } from './page-fixture.ts'

it('lists all sessions of a folder, also what cannot be read', async () => {
  const { lock, stored, comparison } = comparisonInput()
  const folder = await mkdtemp(join(tmpdir(), 'seamline-sessions-'))
  try {
    await mkdir(join(folder, 'a-broken'))
    await writeFile(join(folder, 'a-broken', 'session.json'), '{')
    await writeSession(join(folder, 'b-cut'), { ...stored.session, outcome: 'cut', reason: 'interrupted' })
    await writeSession(join(folder, 'c-whole'), stored.session)
    for (const [number, { trace: _, ...record }] of stored.records)
      await writeRecord(join(folder, 'c-whole', 'runs', String(number).padStart(4, '0')), record)
    const [broken, cut, whole] = await sessionsIn(lock, folder)
    expect(broken).toMatchObject({
      name: 'a-broken',
      comparison: null,
      problem: expect.stringMatching(/no JSON/),
    })
    expect(cut?.comparison).toMatchObject({ verdict: 'INVALID' })
    expect(cut?.comparison?.reasons[0]).toContain('interrupted')
    expect(whole).toMatchObject({ name: 'c-whole', problem: null, startedAt: stored.session.startedAt })
    expect(whole?.comparison?.rows[0]).toEqual(comparison.rows[0])
    expect(await sessionsIn(lock, join(folder, 'none'))).toEqual([])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
