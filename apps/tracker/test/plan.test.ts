import { f32 } from '@seamline/codecs/f32'
import type { HelloMessage } from '@seamline/core'
import { msgpack } from '@seamline/framing/msgpack'
import { protobuf } from '@seamline/framing/protobuf'
import { memory } from '@seamline/transports/memory'
import { describe, expect, it } from 'vitest'
import { createTracker, type TrackerOptions } from '../src/index.ts'
import { announcementOf as announced, codecsOf, mapOf, renamed } from './support/workers.ts'

const SHA = announced('w', [0, 6]).facts.modelSha256

function trackerOf(announcements: readonly HelloMessage[], options: Partial<TrackerOptions> = {}) {
  const tracker = createTracker({
    codecs: codecsOf(f32, renamed('rough', f32, true)),
    framings: [protobuf, msgpack],
    transports: mapOf(memory(), { ...memory(), id: 'tcp' }, { ...memory(), id: 'relay' }),
    ...options,
  })
  for (const announcement of announcements) tracker.announce(announcement)
  return tracker
}

const names = (parts: readonly { readonly name: string }[]) => parts.map(({ name }) => name)
const error = (code: string, message: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) })

describe('a plan', () => {
  it('covers all layers with the fewest stages, and lists every worker once', () => {
    const plan = trackerOf([
      announced('c', [4, 6]),
      announced('a', [0, 2]),
      announced('b', [2, 4]),
      announced('long', [2, 6]),
      announced('twin', [0, 2]),
      announced('other threads', [0, 6], { facts: { threads: 2 } }),
    ]).plan({ facts: { threads: 1 } })
    expect(names(plan.stages)).toEqual(['a', 'long'])
    expect(plan.facts).toMatchObject({ modelSha256: SHA, layerFirst: 0, layerEnd: 6, layerCount: 6 })
    expect(plan.candidates.map(({ name, use }) => [name, use])).toEqual([
      ['c', 'spare'],
      ['a', 'chosen'],
      ['b', 'spare'],
      ['long', 'chosen'],
      ['twin', 'spare'],
      ['other threads', 'unfit'],
    ])
    expect(plan.candidates.at(-1)!.reason).toBe('threads: the request has 1, other threads has 2')
    expect(JSON.parse(JSON.stringify(plan))).toEqual(plan)
  })

  it('goes round workers that the request does without', () => {
    const tracker = trackerOf([announced('a', [0, 3]), announced('a2', [0, 3]), announced('b', [3, 6])])
    expect(names(tracker.plan().stages)).toEqual(['a', 'b'])
    const plan = tracker.plan({ without: ['a'] })
    expect(names(plan.stages)).toEqual(['a2', 'b'])
    expect(plan.candidates[0]).toMatchObject({
      name: 'a',
      use: 'unfit',
      reason: 'the request does without it',
    })
    expect(() => tracker.plan({ without: ['a', 'a2'] })).toThrowError(
      error('UNSUPPORTED', /layers 0-3 is a range served by nobody; left out: a: the request does without/),
    )
  })

  it('of one worker has no links', () => {
    const plan = trackerOf([announced('whole', [0, 6])]).plan()
    expect([names(plan.stages), plan.links]).toEqual([['whole'], []])
  })

  it('keeps chains of unlike workers apart', () => {
    const plan = trackerOf([
      announced('a', [0, 3]),
      announced('b2', [3, 6], { facts: { chunkTokens: 7 } }),
      announced('a2', [0, 3], { facts: { chunkTokens: 7 } }),
    ]).plan()
    expect(names(plan.stages)).toEqual(['a2', 'b2'])
    expect(plan.facts.chunkTokens).toBe(7)
    expect(plan.candidates[0]).toMatchObject({
      ...{ name: 'a', use: 'unfit', reason: 'chunk size in tokens: a2 has 7, a has 64' },
    })
  })

  it('takes a longer way where the neighbours of the short one do not agree', () => {
    const odd = { codecs: ['odd'] }
    const plan = trackerOf([
      announced('a', [0, 2]),
      announced('short', [2, 6], odd),
      announced('b', [2, 4]),
      announced('c', [4, 6]),
    ]).plan()
    expect(names(plan.stages)).toEqual(['a', 'b', 'c'])
  })
})

describe('what is missing is named', () => {
  it.each([
    ['no worker', [], 'WORKER', /no worker has announced itself/],
    [
      'a range in the middle and the end',
      [announced('a', [0, 2]), announced('b', [3, 5])],
      'UNSUPPORTED',
      /like a through 6 layers: layers 2-3, 5-6 are ranges served by nobody$/,
    ],
    [
      'ranges that overlap only',
      [announced('a', [0, 4]), announced('b', [3, 6])],
      'MISMATCH',
      /no ranges meet at layer 4: workers begin at 0, 3/,
    ],
    [
      'a range that only another kind of worker serves',
      [announced('a', [0, 3]), announced('b', [3, 6], { facts: { threads: 2, engine: 'other' } })],
      'MISMATCH',
      /layers 3-6 is a range served by nobody; b serves 3-6 but differs in threads: a has 1, b has 2; engine: a has fake, b has other$/,
    ],
    [
      'which of two models',
      [announced('a', [0, 6]), announced('b', [0, 6], { facts: { modelSha256: 'beef' } })],
      'USAGE',
      new RegExp(`2 models are known: ${SHA} \\(a\\); beef \\(b\\); name one`),
    ],
    [
      'a codec in common',
      [announced('a', [0, 3], { codecs: ['x'] }), announced('b', [3, 6], { codecs: ['f32', 'y'] })],
      'MISMATCH',
      /no codec in common: a sends x, b receives f32, y, allowed are f32$/,
    ],
    [
      'a framing in common',
      [announced('a', [0, 3]), announced('b', [3, 6], { framings: ['msgpack'] })],
      'MISMATCH',
      /no framing in common: a sends protobuf, b receives msgpack/,
    ],
    [
      'a transport in common',
      [
        announced('a', [0, 3]),
        announced('b', [3, 6], { transports: ['tcp'], addresses: [{ transport: 'tcp', address: 'b:1' }] }),
      ],
      'MISMATCH',
      /b dials tcp, a listens on memory/,
    ],
    [
      'a way for the coordinator',
      [announced('a', [0, 6], { addresses: [{ transport: 'pigeon', address: 'loft' }] })],
      'MISMATCH',
      /none of 1 workers fits.*a: it listens on pigeon, the coordinator dials memory, tcp, relay/,
    ],
    [
      'a framing of the coordinator',
      [announced('a', [0, 6], { framings: ['smoke'] })],
      'MISMATCH',
      /a: it speaks smoke, the coordinator protobuf, msgpack/,
    ],
  ] as const)('%s', (_, announcements, code, message) => {
    expect(() => trackerOf(announcements).plan()).toThrowError(error(code, message))
  })

  it.each([
    [{ codec: 'f32' }, 'USAGE', /"codec"; known are facts, codecs/],
    [{ facts: { model: 'x' } }, 'USAGE', /"model"; known are modelSha256/],
    [{ codecs: 'f32' }, 'PROTOCOL', /a string as codecs/],
    [{ codecs: Array(257).fill('x') }, 'LIMIT', /257 entries/],
    [{ facts: { threads: 'many' } }, 'PROTOCOL', /a string as threads/],
    [[], 'PROTOCOL', /a list where an object/],
  ])('in a bad request %j', (request, code, message) => {
    const tracker = trackerOf([announced('a', [0, 6])])
    expect(() => tracker.plan(request as never)).toThrowError(error(code, message))
  })

  it('by a fact that was asked for', () => {
    const tracker = trackerOf([announced('a', [0, 6])])
    expect(() => tracker.plan({ facts: { modelSha256: 'beef' } })).toThrowError(
      error('MISMATCH', new RegExp(`model SHA-256: the request has beef, a has ${SHA}`)),
    )
  })
})

describe('what two neighbours use', () => {
  const pair = (from: Partial<HelloMessage>, to: Partial<HelloMessage>) =>
    trackerOf([announced('a', [0, 3], from as object), announced('b', [3, 6], to as object)])

  it('is the first codec and framing in the order of the receiver that both offer', () => {
    const codecs = codecsOf(f32, renamed('p', f32), renamed('q', f32))
    const tracker = trackerOf(
      [
        announced('a', [0, 3], { codecs: ['f32', 'q', 'p'], framings: ['protobuf', 'msgpack'] }),
        announced('b', [3, 6], { codecs: ['z', 'p', 'q', 'f32'], framings: ['msgpack', 'protobuf'] }),
      ],
      { codecs },
    )
    expect(tracker.plan().links.map(({ carries, codec, framing }) => [carries, codec, framing])).toEqual([
      ['hidden rows', 'p', 'msgpack'],
      ['tokens', '', 'protobuf'],
    ])
    // The coordinator's own order decides on its links.
    expect(tracker.plan().stages.map(({ framing }) => framing)).toEqual(['protobuf', 'protobuf'])
    expect(tracker.plan({ framings: ['protobuf'] }).links[0]!.framing).toBe('protobuf')
  })

  it('is lossy only when asked for by name', () => {
    const both = { codecs: ['rough', 'f32'] }
    const codecOf = (codecs?: string[]) =>
      pair(both, both).plan(codecs === undefined ? {} : { codecs }).links[0]!.codec
    expect(codecOf()).toBe('f32')
    expect(codecOf(['rough'])).toBe('rough')
    expect(codecOf(['f32', 'rough'])).toBe('rough')
    const only = { codecs: ['rough'] }
    expect(() => pair(only, only).plan()).toThrowError(error('MISMATCH', /allowed are f32/))
  })

  it('is a codec that the tracker itself lacks when it is asked for by name', () => {
    const both = { codecs: ['theirs', 'f32'] }
    expect(pair(both, both).plan().links[0]!.codec).toBe('f32')
    expect(pair(both, both).plan({ codecs: ['theirs'] }).links[0]!.codec).toBe('theirs')
  })

  it('are direct addresses before those through a relay, of those that the receiver can dial', () => {
    const addresses = [
      { transport: 'relay', address: 'r:1/room' },
      { transport: 'tcp', address: 'a:1' },
      { transport: 'memory', address: 'a' },
    ]
    const transports = ['relay', 'tcp']
    const plan = pair({ addresses, transports }, { transports }).plan()
    expect(plan.stages[0]!.addresses.map(({ transport }) => transport)).toEqual(['tcp', 'memory', 'relay'])
    expect(plan.links[0]!.addresses.map(({ transport }) => transport)).toEqual(['tcp', 'relay'])
    // b listens on memory, which a does not dial: tokens go through the coordinator.
    expect(plan.links.map(({ carries }) => carries)).toEqual(['hidden rows'])
  })
})
