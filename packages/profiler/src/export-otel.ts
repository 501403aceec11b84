import { createHash } from 'node:crypto'
import { spanTagParts } from '@seamline/core'
import { earliestNs } from './export-chrome.ts'
import { commonSpans, portName, spanNames, type TrackSpan, toCommonNs, tracks } from './export-tracks.ts'
import type { ClockAlignment, RunTrace } from './trace.ts'

type OtelValue =
  | { readonly stringValue: string }
  | { readonly intValue: string }
  | { readonly boolValue: boolean }

export interface OtelAttribute {
  readonly key: string
  readonly value: OtelValue
}

export interface OtelSpan {
  /** 32 and 16 hexadecimal digits. */
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 1: internal, 2: server. */
  readonly kind: 1 | 2
  /** ns since 1970 as decimal text. */
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly OtelAttribute[]
}

export interface OtelTraces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly OtelAttribute[] }
    readonly scopeSpans: readonly {
      readonly scope: { readonly name: string; readonly version: string }
      readonly spans: readonly OtelSpan[]
    }[]
  }[]
}

/**
 * The run as OTLP/JSON (`TracesData` of the OpenTelemetry protocol, JSON encoding): a resource for each process, a trace for each
 * sequence with a server span from acceptance to the last token and everything recorded for it below. What belongs to no
 * sequence (garbage collection, probes) is one more trace. Times are explicit: `settings.startedAt` plus the distance from
 * the earliest record, so distances are exact to the ns and absolute times as good as that stamp. Ids follow from the run's
 * content. `gen_ai.*` names are those of OpenTelemetry's GenAI conventions, others begin with `seamline.`.
 */
export function otel(trace: RunTrace, alignment: ClockAlignment): OtelTraces {
  const { settings } = trace
  const originNs = earliestNs(trace, alignment)
  const startedMs = Date.parse(settings.startedAt)
  const originUnixNs = BigInt(Number.isFinite(startedMs) ? startedMs : 0) * 1_000_000n
  const unixNs = (ns: number): string => String(originUnixNs + BigInt(ns - originNs))
  const id = (digits: number, ...parts: readonly (string | number)[]): string =>
    createHash('sha256')
      .update([settings.startedAt, settings.manifestSha256, ...parts].join('\n'))
      .digest('hex')
      .slice(0, digits)
  const traceId = (sequence: number | 'run'): string => id(32, 'trace', sequence)
  const rootId = (sequence: number | 'run'): string => id(16, 'root', sequence)
  const coordinator = trace.processes.findIndex((process) => process.role === 'coordinator')
  const sequences = new Set(trace.sequences.map((sequence) => sequence.sequence))

  const roots: OtelSpan[] = trace.sequences.map((sequence) => {
    const startNs = toCommonNs(alignment, coordinator, sequence.acceptedNs)
    const endNs = toCommonNs(alignment, coordinator, sequence.emittedNs.at(-1) ?? sequence.acceptedNs)
    return {
      traceId: traceId(sequence.sequence),
      spanId: rootId(sequence.sequence),
      name: `text_completion ${settings.model}`,
      kind: 2,
      startTimeUnixNano: unixNs(startNs),
      endTimeUnixNano: unixNs(endNs),
      attributes: [
        text('gen_ai.operation.name', 'text_completion'),
        text('gen_ai.provider.name', 'seamline'),
        text('gen_ai.request.model', settings.model),
        text('gen_ai.response.model', settings.model),
        integer('gen_ai.usage.input_tokens', sequence.promptTokens),
        integer('gen_ai.usage.output_tokens', sequence.emittedNs.length),
        integer('seamline.sequence', sequence.sequence),
        { key: 'seamline.complete', value: { boolValue: trace.complete } },
      ],
    }
  })

  let lastNs = originNs
  trace.processes.forEach((process, index) => {
    for (const span of commonSpans(process, index, alignment)) lastNs = Math.max(lastNs, span.endNs)
  })
  const runRoot: OtelSpan = {
    traceId: traceId('run'),
    spanId: rootId('run'),
    name: 'seamline run',
    kind: 1,
    startTimeUnixNano: unixNs(originNs),
    endTimeUnixNano: unixNs(lastNs),
    attributes: [text('gen_ai.request.model', settings.model)],
  }

  const drawn = tracks(trace, alignment)
  return {
    resourceSpans: trace.processes.map((process, index) => {
      const spans = drawn
        .filter((track) => track.process === index)
        .flatMap((track) => track.spans.map((span) => ({ span, track: track.name })))
        .map(({ span, track }, number): OtelSpan => {
          const owner = ownerOf(span, sequences)
          return {
            traceId: traceId(owner),
            spanId: id(16, 'span', index, number),
            parentSpanId: rootId(owner),
            name: spanNames.get(span.name) ?? `span ${span.name}`,
            kind: 1,
            startTimeUnixNano: unixNs(span.startNs),
            endTimeUnixNano: unixNs(span.endNs),
            attributes: [
              text('seamline.track', track),
              ...(owner === 'run' ? [] : [integer('seamline.position', spanTagParts(span.tag).position)]),
              ...(span.port > 0 ? [text('seamline.link', portName(span.port))] : []),
              ...(owner !== 'run' && span.bytes > 0 ? [integer('seamline.bytes', span.bytes)] : []),
            ],
          }
        })
      return {
        resource: {
          attributes: [
            text('service.name', 'seamline'),
            text('service.instance.id', process.name),
            text('seamline.role', process.role),
            ...(process.role === 'stage' ? [integer('seamline.stage', process.stage)] : []),
          ],
        },
        scopeSpans: [
          {
            scope: { name: '@seamline/profiler', version: '0.1.0' },
            spans: index === coordinator ? [runRoot, ...roots, ...spans] : spans,
          },
        ],
      }
    }),
  }
}

const untagged = new Set(['gc', 'probe', 'loopCpuWait', 'relayIn', 'relayQueue', 'relayOut'])

function ownerOf(span: TrackSpan, sequences: ReadonlySet<number>): number | 'run' {
  if (untagged.has(spanNames.get(span.name) ?? '')) return 'run'
  const { sequence } = spanTagParts(span.tag)
  return sequences.has(sequence) ? sequence : 'run'
}

function text(key: string, value: string): OtelAttribute {
  return { key, value: { stringValue: value } }
}

function integer(key: string, value: number): OtelAttribute {
  return { key, value: { intValue: String(value) } }
}
