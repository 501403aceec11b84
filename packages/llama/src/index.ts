/**
 * Runs a range of layers of a GGUF model on unmodified llama.cpp libraries, as a StageExecutor.
 *
 * @packageDocumentation
 */
export type { LlamaExecutorOptions, StageFacts } from './executor.ts'
export { llamaExecutor } from './executor.ts'
export { findLibraries, llamaRelease } from './libraries.ts'
export { dieWithParent, findAddon } from './native.ts'
export type { Prebuild } from './prebuild.ts'
