/**
 * Recording runs of local stages and analysing them: what `seamline profile` is made of.
 *
 * @packageDocumentation
 */
export { type Analysis, analyse, writeAnalysis } from './analyse.ts'
export { type Chain, type ChainOptions, chainOf, promptsOf } from './chain.ts'
export type { Context } from './command.ts'
export { type Injection, type Place, places } from './inject.ts'
export { modelDir } from './model-dir.ts'
export { GREEDY } from './options.ts'
export { type LocalOptions, withLocalPipeline } from './pipelines.ts'
export { type RecordOptions, record, recordingRing, recordRun } from './record-run.ts'
export { createUi } from './ui.ts'
