import { SpanName, SpanPort } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { spanRing } from '../src/index.ts'

describe('spanRing', () => {
  it('returns records oldest first, six numbers a span, and is empty afterwards', () => {
    const ring = spanRing({ capacity: 4 })
    ring.span(SpanName.compute, 10, 30, 7, 256)
    ring.span(SpanName.send, 30, 31, 7, 0, SpanPort.hiddenOut)
    expect([...ring.drain()]).toEqual([2, 10, 30, 7, 256, 0, 20, 30, 31, 7, 0, 2])
    expect(ring.size).toBe(0)
    expect(ring.drain().length).toBe(0)
  })

  it('keeps the oldest and counts the rest when full', () => {
    const ring = spanRing({ capacity: 2 })
    for (let tag = 0; tag < 5; tag++) ring.span(SpanName.emit, tag, tag + 1, tag, 0)
    expect(ring.dropped).toBe(3)
    expect([...ring.drain()].filter((_, i) => i % 6 === 3)).toEqual([0, 1])
    expect(ring.dropped).toBe(0)
  })

  it('keeps nanoseconds of a long uptime exact', () => {
    const ring = spanRing({ capacity: 1 })
    const startNs = 104 * 86_400 * 1e9 - 1
    ring.span(SpanName.compute, startNs, startNs + 1, 0, 0)
    const [, start, end] = ring.drain()
    expect(end! - start!).toBe(1)
  })

  it('takes nothing while it is not recording', () => {
    const ring = spanRing({ capacity: 2, recording: false })
    ring.span(SpanName.compute, 1, 2, 3, 4)
    expect(ring.size).toBe(0)
    ring.recording = true
    ring.span(SpanName.compute, 1, 2, 3, 4)
    expect(ring.size).toBe(1)
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses a capacity of %s', (capacity) => {
    expect(() => spanRing({ capacity })).toThrow(expect.objectContaining({ code: 'USAGE' }))
  })
})
