/**
 * Takes measurements where they happen: a preallocated ring of spans that never allocates while recording.
 *
 * @packageDocumentation
 */

export { type AlignedRun, alignRun } from './aligned.ts'
export { attribute, attributeRun } from './attribution.ts'
export {
  type AlignOptions,
  alignClocks,
  clockUncertaintyNs,
  onLastStage,
  type PairClock,
  type RunClocks,
} from './clocks.ts'
export { type Instruments, peakRssBytes, processInstruments, spanCostNs } from './instruments.ts'
export {
  type EdgeBytes,
  metrics,
  type Quantiles,
  type RunMetrics,
  type SequenceMetrics,
  type Throughput,
} from './metrics.ts'
export { type SpanRing, type SpanRingOptions, spanRing } from './span-ring.ts'
export * from './trace.ts'
export {
  type ReadTraceOptions,
  readTrace,
  type StoredRun,
  type TraceWriter,
  traceWriter,
  writeTrace,
} from './trace-file.ts'
