/**
 * Runs stages as a pipeline: the link, the handshake, the worker and the coordinator. Knows contracts only; executor,
 * codecs, framings and transport are arguments.
 *
 * @packageDocumentation
 */
export type {
  Generation,
  GenerationRequest,
  ReplayPart,
  ReplayStep,
  SavedSequence,
  TokenEvent,
} from './generation.ts'
export {
  connectPipeline,
  type Pipeline,
  type PipelineLink,
  type PipelineOptions,
  type StageTrace,
} from './pipeline.ts'
export { recordedSteps } from './replay.ts'
export type { Instruments } from './stage-run.ts'
export { createWorker, DEFAULT_LIVENESS_MS, type Worker, type WorkerOptions } from './worker.ts'
