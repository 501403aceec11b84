/**
 * Takes measurements where they happen: a preallocated ring of spans that never allocates while recording.
 *
 * @packageDocumentation
 */
export { type Instruments, peakRssBytes, processInstruments, spanCostNs } from './instruments.ts'
export { type SpanRing, type SpanRingOptions, spanRing } from './span-ring.ts'
export * from './trace.ts'
