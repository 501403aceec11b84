import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import { describe, expect, it } from 'vitest'
import { checkTrace, type ProcessTrace, type RunTrace } from '../src/index.ts'
import { simulate } from './simulator.ts'

const { trace } = simulate({ stages: 2, sequences: 2, tokens: 4, computeNs: [1e6, 1e6] })

function withSpan(at: number, value: number): RunTrace {
  const processes = trace.processes.map((process, i): ProcessTrace => {
    const spans = process.spans.slice()
    if (i === 1) spans[SPAN_RECORD_LENGTH + at] = value
    return { ...process, spans }
  })
  return { ...trace, processes }
}

describe('checkTrace', () => {
  it('lets a recording pass', () => {
    expect(() => checkTrace(trace)).not.toThrow()
  })

  it.each([
    ['a name that means nothing', 0, 999, /has the name 999/],
    ['a name that is no whole number', 0, 1.5, /has the name 1.5/],
    ['a stamp that is no number', 1, Number.NaN, /holds NaN/],
    ['endless bytes', 4, Number.POSITIVE_INFINITY, /holds Infinity/],
    ['an end before its begin', 2, -5, /goes from \d+ to -5 ns/],
    ['a tag below zero', 3, -1, /has the tag -1/],
    ['bytes below zero', 4, -1, /has -1 bytes/],
    ['a port that is no link', 5, 9, /has the port 9/],
  ])('refuses a span with %s', (_, at, value, message) => {
    expect(() => checkTrace(withSpan(at, value))).toThrow(message)
  })

  it('knows every name that is recorded', () => {
    for (const name of Object.values(SpanName)) expect(() => checkTrace(withSpan(0, name))).not.toThrow()
  })

  it('refuses stages and sequences that are there twice, and tokens before their request', () => {
    const [coordinator, first] = trace.processes as [ProcessTrace, ProcessTrace]
    expect(() => checkTrace({ ...trace, processes: [coordinator, first, first] })).toThrow(/two of it/)
    expect(() => checkTrace({ ...trace, processes: [coordinator, { ...first, stage: 1e9 }] })).toThrow(
      /stage 1000000000/,
    )
    expect(() => checkTrace({ ...trace, processes: trace.processes.slice(1) })).toThrow(/0 coordinators/)
    expect(() => checkTrace({ ...trace, processes: [coordinator, first] })).toThrow(
      /1 stages, and settings.stages is 2/,
    )
    const [one] = trace.sequences as [RunTrace['sequences'][number]]
    expect(() => checkTrace({ ...trace, sequences: [one, one] })).toThrow(/is there twice/)
    const early = { ...one, acceptedNs: one.emittedNs[0]! + 1 }
    expect(() => checkTrace({ ...trace, sequences: [early] })).toThrow(/a stamp of \d+ ns after/)
    expect(() => checkTrace({ ...trace, sequences: [{ ...one, tokens: [1] }] })).toThrow(
      /1 tokens and 4 stamps/,
    )
  })
})
