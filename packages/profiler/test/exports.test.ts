import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import { Ajv } from 'ajv'
import { describe, expect, it } from 'vitest'
import { type ChromeEvent, chromeTrace } from '../src/export-chrome.ts'
import { otel } from '../src/export-otel.ts'
import { speedscope } from '../src/export-speedscope.ts'
import { handTrace } from './hand-trace.ts'
import { sample } from './sample.ts'
import { simulate } from './simulator.ts'

const made = sample()
const hand = handTrace()

describe('chromeTrace', () => {
  const whole = chromeTrace(made.trace, made.alignment, made.attribution)
  const small = chromeTrace(hand.trace, hand.alignment)
  // Tokens through the coordinator, a relay on the second hop, steps of two rows, clocks that are apart.
  const simulated = simulate({
    stages: 3,
    sequences: 3,
    tokens: 12,
    rowsPerStep: 2,
    relayHop: 1,
    throughCoordinator: true,
    gcEveryNs: 3e6,
    jitter: 0.3,
    computeNs: [400_000, 700_000, 500_000],
    delayNs: [100_000, 200_000, 100_000],
    costsNs: { 'frame.encode': 10_000, 'send.call': 20_000, dispatch: 15_000, sample: 30_000 },
    bytesPerNs: 1,
    promptTokens: 24,
    clocks: [
      { offsetNs: 5e6, drift: 1e-6 },
      { offsetNs: -7e6, drift: 0 },
    ],
  })
  const roundabout = chromeTrace(simulated.trace, simulated.alignment)

  it('puts every process on one clock and keeps ns', () => {
    const slices = small.traceEvents.filter((event) => event.ph === 'X')
    const times = slices.map(({ name, pid, ts, dur }) => [name, pid, ts, Math.round(dur! * 1e6) / 1e6])
    // The earliest reading of the common clock is the request's 10 000; stage 0 is moved by 1000.
    expect(small.otherData.originNs).toBe(10_000)
    expect(times).toEqual([
      ['compute', 2, 2.001, 3.999],
      ['cpuWait', 2, 5, 1],
      ['frameEncode', 2, 6, 0.2],
      ['send', 2, 6.2, 0.25],
      ['stageQueue', 2, 0.5, 1.501],
      ['stageQueue', 2, 1, 2],
      ['sendQueue', 2, 6.2, 0.7],
      ['frameDecode', 3, 7, 0.123],
      ['receive', 3, 7.123, 0.077],
    ])
    for (const event of whole.traceEvents) {
      const ns = event.ts * 1000
      expect(Math.abs(ns - Math.round(ns))).toBeLessThan(1e-3)
    }
  })

  it.each([
    ['by hand', small],
    ['of a whole run', whole],
    ['with a relay, through the coordinator', roundabout],
  ])('has slices that nest on every thread: %s', (_, trace) => {
    // In ns, and in the µs of the file as they are: there are readers that add start and length in floating point.
    for (const unit of [(us: number) => Math.round(us * 1000), (us: number) => us])
      for (const slices of byThread(trace.traceEvents).values()) {
        const open: number[] = []
        for (const { ts, dur } of slices) {
          const end = unit(ts + dur)
          while (open.length > 0 && open.at(-1)! <= unit(ts)) open.pop()
          if (open.length > 0) expect(end).toBeLessThanOrEqual(open.at(-1)!)
          open.push(end)
        }
      }
  })

  it('has one arrow a message, both ends on a slice of their thread, forwards in time', () => {
    const starts = whole.traceEvents.filter((event) => event.ph === 's')
    const ends = new Map(
      whole.traceEvents.filter((event) => event.ph === 'f').map((event) => [event.id, event]),
    )
    // A sequence: 2 prompt chunks and 63 tokens over 2 hops, 63 tokens back to stage 0, 2 chunks in, 64 results out.
    expect(starts.length).toBe(4 * ((2 + 63) * 2 + 63 + 2 + 64))
    expect(ends.size).toBe(starts.length)
    const threads = byThread(whole.traceEvents)
    for (const start of starts) {
      const end = ends.get(start.id)!
      expect(end.bp).toBe('e')
      expect(end.ts).toBeGreaterThanOrEqual(start.ts)
      expect(end.pid).not.toBe(start.pid)
      for (const event of [start, end]) {
        const slices = threads.get(`${event.pid}/${event.tid}`) ?? []
        expect(slices.some(({ ts, dur }) => ts <= event.ts && event.ts <= ts + dur)).toBe(true)
      }
    }
  })

  it('has an arrow for every message of a run with a relay, through the coordinator', () => {
    const sent = simulated.trace.processes.flatMap(({ spans }) =>
      Array.from({ length: spans.length / SPAN_RECORD_LENGTH }, (_, at) => spans[at * SPAN_RECORD_LENGTH]),
    )
    const count = sent.filter((name) => name === SpanName.sendQueue).length
    expect(count).toBeGreaterThan(100)
    expect(roundabout.traceEvents.filter((event) => event.ph === 's').length).toBe(count)
    expect(roundabout.traceEvents.some((event) => event.name === 'relayOut')).toBe(true)
  })

  it('has an async track for each sequence, with its tokens', () => {
    for (const sequence of [0, 1, 2, 3]) {
      const own = whole.traceEvents.filter((event) => event.id === `sequence-${sequence}`)
      expect(own.filter((event) => event.ph === 'n').length).toBe(64)
      const [begin] = own.filter((event) => event.ph === 'b')
      const [end] = own.filter((event) => event.ph === 'e')
      expect(end!.ts).toBeGreaterThan(begin!.ts)
    }
  })

  it('names every process and thread once', () => {
    const names = whole.traceEvents.filter((event) => event.name === 'thread_name')
    const used = [...byThread(whole.traceEvents).keys()].sort()
    expect(names.map((event) => `${event.pid}/${event.tid}`).sort()).toEqual(used)
    const processes = whole.traceEvents.filter((event) => event.name === 'process_name')
    expect(processes.map((event) => event.args?.name)).toEqual([
      'coordinator',
      'stage 0 (layers 0–7)',
      'stage 1 (layers 8–15)',
      'stage 2 (layers 16–23)',
      'tokens, attributed',
    ])
  })

  it('tiles attributed tokens', () => {
    const sumNs = whole.traceEvents
      .filter((event) => event.cat === 'attribution')
      .reduce((sum, event) => sum + Math.round(event.dur! * 1000), 0)
    const wallNs = made.attribution.tokens.reduce((sum, token) => sum + token.endNs - token.startNs, 0)
    expect(sumNs).toBe(wallNs)
  })
})

interface Slice {
  readonly ts: number
  readonly dur: number
}

/** Slices by process and thread, by start, of two with the same start the longer one first. */
function byThread(events: readonly ChromeEvent[]): Map<string, Slice[]> {
  const threads = new Map<string, Slice[]>()
  for (const { ph, pid, tid, ts, dur } of events) {
    if (ph !== 'X') continue
    threads.set(`${pid}/${tid}`, [...(threads.get(`${pid}/${tid}`) ?? []), { ts, dur: dur! }])
  }
  for (const slices of threads.values()) slices.sort((a, b) => a.ts - b.ts || b.dur - a.dur)
  return threads
}

/** The fields that speedscope publishes for files of evented profiles (its file-format-schema.json), nothing else allowed. */
const speedscopeSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['$schema', 'shared', 'profiles'],
  properties: {
    $schema: { const: 'https://www.speedscope.app/file-format-schema.json' },
    name: { type: 'string' },
    exporter: { type: 'string' },
    activeProfileIndex: { type: 'integer', minimum: 0 },
    shared: {
      type: 'object',
      additionalProperties: false,
      required: ['frames'],
      properties: {
        frames: {
          type: 'array',
          items: {
            type: 'object',
            additionalProperties: false,
            required: ['name'],
            properties: {
              name: { type: 'string' },
              file: { type: 'string' },
              line: { type: 'number' },
              col: { type: 'number' },
            },
          },
        },
      },
    },
    profiles: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['type', 'name', 'unit', 'startValue', 'endValue', 'events'],
        properties: {
          type: { const: 'evented' },
          name: { type: 'string' },
          unit: { enum: ['none', 'nanoseconds', 'microseconds', 'milliseconds', 'seconds', 'bytes'] },
          startValue: { type: 'number' },
          endValue: { type: 'number' },
          events: {
            type: 'array',
            items: {
              type: 'object',
              additionalProperties: false,
              required: ['type', 'at', 'frame'],
              properties: {
                type: { enum: ['O', 'C'] },
                at: { type: 'number' },
                frame: { type: 'integer', minimum: 0 },
              },
            },
          },
        },
      },
    },
  },
}

describe('speedscope', () => {
  it.each([
    ['by hand', speedscope(hand.trace, hand.alignment)],
    ['of a whole run', speedscope(made.trace, made.alignment)],
  ])('is valid by the published fields, balanced and in order: %s', (_, file) => {
    const validate = new Ajv({ strict: false }).compile(speedscopeSchema)
    expect(validate(JSON.parse(JSON.stringify(file))), JSON.stringify(validate.errors)).toBe(true)
    expect(file.profiles[file.activeProfileIndex]!.name).toBe('stage 0: engine')
    for (const profile of file.profiles) {
      const open: number[] = []
      let lastAt = profile.startValue
      for (const { type, at, frame } of profile.events) {
        expect(at).toBeGreaterThanOrEqual(lastAt)
        expect(file.shared.frames[frame]).toBeDefined()
        lastAt = at
        if (type === 'O') open.push(frame)
        else expect(open.pop()).toBe(frame)
      }
      expect(open).toEqual([])
      expect(profile.endValue).toBeGreaterThanOrEqual(lastAt)
    }
  })

  it('has the lanes and times of the run', () => {
    const file = speedscope(hand.trace, hand.alignment)
    expect(file.profiles.map((profile) => profile.name)).toEqual([
      'stage 0: engine',
      'stage 0: event loop',
      'stage 0: queue',
      'stage 0: queue 2',
      'stage 0: link hiddenOut',
      'stage 1: event loop',
      'stage 1: link hiddenIn',
    ])
    const names = file.shared.frames.map((frame) => frame.name)
    expect(file.profiles[0]!.events.map((event) => [event.type, names[event.frame], event.at])).toEqual([
      ['O', 'compute', 2_001],
      ['O', 'cpuWait', 5_000],
      ['C', 'cpuWait', 6_000],
      ['C', 'compute', 6_000],
    ])
  })
})

describe('otel', () => {
  const small = otel(hand.trace, hand.alignment)
  const spans = otel(made.trace, made.alignment).resourceSpans.flatMap((resource) =>
    resource.scopeSpans.flatMap((scope) => scope.spans),
  )

  it('has ids, parents and times as the protocol wants them', () => {
    const ids = new Set(spans.map((span) => span.spanId))
    expect(ids.size).toBe(spans.length)
    const traceOf = new Map(spans.map((span) => [span.spanId, span.traceId]))
    for (const span of spans) {
      expect(span.traceId).toMatch(/^[0-9a-f]{32}$/)
      expect(span.spanId).toMatch(/^[0-9a-f]{16}$/)
      expect(span.startTimeUnixNano).toMatch(/^\d{19}$/)
      expect(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano)).toBe(true)
      if (span.parentSpanId !== undefined) expect(traceOf.get(span.parentSpanId)).toBe(span.traceId)
    }
    // Four sequences and the run itself.
    expect(spans.filter((span) => span.parentSpanId === undefined).length).toBe(5)
    expect(JSON.stringify(otel(made.trace, made.alignment))).toBe(
      JSON.stringify(otel(made.trace, made.alignment)),
    )
  })

  it('has explicit times to the ns and the names of the GenAI conventions', () => {
    const stage = small.resourceSpans[1]!
    const compute = stage.scopeSpans[0]!.spans.find((span) => span.name === 'compute')!
    // 2026-03-14T09:26:53.589Z is 1 773 480 413 589 ms; the span begins 2001 ns after the earliest record.
    expect(Date.UTC(2026, 2, 14, 9, 26, 53, 589)).toBe(1_773_480_413_589)
    expect(compute.startTimeUnixNano).toBe('1773480413589002001')
    expect(compute.endTimeUnixNano).toBe('1773480413589006000')
    const root = small.resourceSpans[0]!.scopeSpans[0]!.spans.find((span) => span.kind === 2)!
    const attributes = Object.fromEntries(
      root.attributes.map(({ key, value }) => [key, Object.values(value)[0]]),
    )
    expect(attributes).toMatchObject({
      'gen_ai.operation.name': 'text_completion',
      'gen_ai.request.model': 'tiny-1b.gguf',
      'gen_ai.usage.input_tokens': '5',
      'gen_ai.usage.output_tokens': '2',
    })
    expect(compute.parentSpanId).toBe(root.spanId)
  })
})
