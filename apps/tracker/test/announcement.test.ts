import type { Clock } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { LIMITS } from '../src/announcement.ts'
import { createTracker } from '../src/index.ts'
import { announcementOf, stagesTo, withFakes } from './support/workers.ts'

const none = { codecs: new Map(), framings: [], transports: new Map() }
const good = announcementOf('w', [0, 6])

/** A copy without the field at `path`, or with `value` there. */
function changed(path: string, value?: unknown): unknown {
  const copy = structuredClone(good) as unknown as Record<string, unknown>
  const keys = path.split('.')
  const last = keys.pop()!
  const holder = keys.reduce((at, key) => at[key] as Record<string, unknown>, copy)
  if (value === undefined) delete holder[last]
  else holder[last] = value
  return copy
}

describe('an announcement', () => {
  it('of a real worker is kept as it is', async () => {
    await withFakes(stagesTo([3, 6]), async ({ workers, tracker }) => {
      const known = tracker().workers()
      expect(known.map(({ announcement }) => announcement)).toEqual(workers.map((one) => one.announcement))
    })
  })

  it('with fields that nobody here knows is served all the same', () => {
    const tracker = createTracker(none)
    const newer = { ...good, colour: 'red', facts: { ...good.facts, moon: 1 }, sub: { deep: [1, 2] } }
    expect(tracker.announce(newer)).toMatchObject({ name: 'w', replaced: false })
    expect(tracker.workers()[0]!.announcement).toEqual(good)
  })

  it.each([
    ...Object.keys(good).filter((key) => key !== 'run'),
    ...Object.keys(good.facts).map((key) => `facts.${key}`),
  ])('that lacks %s is refused, naming it', (path) => {
    const field = path.split('.').at(-1)!
    expect(() => createTracker(none).announce(changed(path))).toThrowError(
      expect.objectContaining({
        code: 'PROTOCOL',
        message: expect.stringMatching(new RegExp(`lacks the field ${field}$`)),
        ...(path === 'name' ? {} : { worker: 'w' }),
      }),
    )
  })

  it.each([
    ['name', 'x'.repeat(LIMITS.nameChars + 1), 'LIMIT', /65 characters as name, at most 64/],
    ['name', '', 'PROTOCOL', /empty name/],
    ['name', 'a\u001b[2J', 'PROTOCOL', /cannot be printed/],
    ['name', 7, 'PROTOCOL', /the number 7 as name/],
    ['kind', 'open', 'PROTOCOL', /kind "open" where "hello"/],
    ['role', 'coordinator', 'PROTOCOL', /role "coordinator" where "worker"/],
    ['codecs', 'f32', 'PROTOCOL', /a string as codecs where a list/],
    ['codecs', [], 'PROTOCOL', /no entry in codecs/],
    ['codecs', Array(LIMITS.codecs + 1).fill('f32'), 'LIMIT', /65 entries in codecs, at most 64/],
    ['framings', [7], 'PROTOCOL', /the number 7 as framings\[0\]/],
    ['addresses', [], 'PROTOCOL', /nobody could dial/],
    ['addresses', Array(LIMITS.addresses + 1).fill(good.addresses[0]), 'LIMIT', /17 entries in addresses/],
    ['addresses', [{ transport: 'tcp' }], 'PROTOCOL', /addresses\[0\] lacks the field address/],
    ['addresses', [{ transport: 'tcp', address: 'x'.repeat(513) }], 'LIMIT', /513 characters/],
    ['addresses', [null], 'PROTOCOL', /null where an object/],
    ['facts', [], 'PROTOCOL', /facts is a list/],
    ['facts.engine', 'x'.repeat(LIMITS.factChars + 1), 'LIMIT', /engine/],
    ['facts.threads', 1.5, 'PROTOCOL', /threads where a whole number/],
    ['facts.threads', '1', 'PROTOCOL', /a string as threads/],
    ['facts.layerEnd', 7, 'PROTOCOL', /layers 0-7 of 6/],
    ['facts.layerEnd', 0, 'PROTOCOL', /layers 0-0 of 6/],
    ['facts.layerFirst', -1, 'PROTOCOL', /layers -1-6 of 6/],
    ['facts.layerCount', 1e9, 'LIMIT', /layerCount 1000000000/],
    ['livenessMs', 0, 'PROTOCOL', /livenessMs 0/],
    ['maxPayloadBytes', Number.NaN, 'PROTOCOL', /maxPayloadBytes/],
  ] as const)('with %s = %j is refused', (path, value, code, message) => {
    const tracker = createTracker(none)
    tracker.announce(good)
    expect(() => tracker.announce(changed(path, value))).toThrowError(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    )
    expect(tracker.workers().map(({ announcement }) => announcement)).toEqual([good])
  })

  it.each([null, 7, 'hello', [], undefined])('that is %j is refused', (value) => {
    expect(() => createTracker(none).announce(value)).toThrowError(
      expect.objectContaining({ code: 'PROTOCOL' }),
    )
  })
})

describe('the time of an announcement', () => {
  let nowMs = 0
  const clock: Clock = { nowNs: () => nowMs * 1e6 }

  it('ends unless it is renewed', () => {
    nowMs = 1000
    const tracker = createTracker({ ...none, clock, expiryMs: 300 })
    expect(tracker.announce(good)).toEqual({ name: 'w', expiresInMs: 300, replaced: false })
    nowMs = 1200
    tracker.announce(announcementOf('v', [0, 6]))
    expect(tracker.workers().map(({ expiresInMs }) => expiresInMs)).toEqual([100, 300])
    tracker.announce(good)
    nowMs = 1499
    expect(tracker.workers().map(({ announcement }) => announcement.name)).toEqual(['w', 'v'])
    nowMs = 1500
    expect(tracker.workers()).toEqual([])
    expect(() => tracker.plan()).toThrowError(expect.objectContaining({ code: 'WORKER' }))
  })

  it('is over when a newer one of the same name comes, or when it is withdrawn', () => {
    const tracker = createTracker({ ...none, clock })
    const moved = { ...good, addresses: [{ transport: 'memory', address: 'elsewhere' }] }
    tracker.announce(good)
    expect(tracker.announce(good).replaced).toBe(false)
    expect(tracker.announce(moved).replaced).toBe(true)
    expect(tracker.workers().map(({ announcement }) => announcement)).toEqual([moved])
    expect(tracker.withdraw('w')).toBe(true)
    expect(tracker.withdraw('w')).toBe(false)
    expect(tracker.workers()).toEqual([])
  })

  it('leaves room for others when it is over', () => {
    nowMs = 0
    const tracker = createTracker({ ...none, clock, maxWorkers: 2, expiryMs: 100 })
    for (const name of ['a', 'b']) tracker.announce(announcementOf(name, [0, 6]))
    expect(() => tracker.announce(announcementOf('c', [0, 6]))).toThrowError(
      expect.objectContaining({ code: 'BUSY', message: expect.stringMatching(/2 workers.*at most 2/) }),
    )
    expect(tracker.announce(announcementOf('a', [0, 3])).replaced).toBe(true)
    nowMs = 100
    expect(tracker.announce(announcementOf('c', [0, 6])).replaced).toBe(false)
  })

  it.each([0, -1, 1.5, Number.NaN, 1e12])('of %d ms is no time', (expiryMs) => {
    expect(() => createTracker({ ...none, expiryMs })).toThrowError(
      expect.objectContaining({ code: 'USAGE' }),
    )
  })
})
