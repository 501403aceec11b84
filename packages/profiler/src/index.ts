/**
 * Takes measurements where they happen: a preallocated ring of spans that never allocates while recording.
 *
 * @packageDocumentation
 */

export { type AlignedRun, alignRun } from './aligned.ts'
export { attribute, attributeRun } from './attribution.ts'
export {
  type AttributionSummary,
  type CategorySummary,
  summarizeAttribution,
} from './attribution-summary.ts'
export { type CategoryGroup, categoryGroups, categoryLabel, groupLabels, groupOf } from './categories.ts'
export { checkTrace } from './check-trace.ts'
export {
  type AlignOptions,
  alignClocks,
  clockUncertaintyNs,
  onLastStage,
  type PairClock,
  type RunClocks,
} from './clocks.ts'
export { type ChromeTrace, chromeTrace } from './export-chrome.ts'
export { type OtelTraces, otel } from './export-otel.ts'
export { type SpeedscopeFile, speedscope } from './export-speedscope.ts'
export { portName } from './export-tracks.ts'
export { type Instruments, peakRssBytes, processInstruments, spanCostNs } from './instruments.ts'
export { type LiveFrame, renderLive } from './live.ts'
export {
  type EdgeBytes,
  metrics,
  type Quantiles,
  type RunMetrics,
  type SequenceMetrics,
  type Throughput,
} from './metrics.ts'
export { type ReplayOptions, type ReplayPolicy, type ReplayResult, replay } from './replay.ts'
export { replayModel } from './replay-model.ts'
export type { Cost, ReplayModel } from './replay-types.ts'
export { type ReportData, reportData } from './report/data.ts'
export { reportHtml } from './report/page.ts'
export { type SpanRing, type SpanRingOptions, spanRing } from './span-ring.ts'
export {
  attributionTotals,
  type BytesRow,
  type FloorRow,
  type MetricRow,
  type RunSummary,
  runSummary,
  type StructureRow,
  type SummaryInputs,
  summaryJson,
  type WhatIfRow,
} from './summary.ts'
export * from './trace.ts'
export {
  type ReadTraceOptions,
  readTrace,
  type StoredRun,
  type TraceWriter,
  traceWriter,
  writeTrace,
} from './trace-file.ts'
export * from './what-if.ts'
