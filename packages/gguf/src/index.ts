/**
 * Read, write, split, hash and synthesise GGUF files with bounded memory.
 *
 * @packageDocumentation
 */
export {
  ensureRoom,
  type FreeBytes,
  hashFile,
  type OnProgress,
  verifyFile,
  type WrittenFile,
} from './files.ts'
export {
  type FixedTypeName,
  type GgufScalar,
  type TensorType,
  tensorBytes,
  tensorTypeNamed,
  type ValueTypeName,
} from './format.ts'
export { balanceByBytes, checkLayerRanges, type LayerRange, parseLayerRanges } from './layers.ts'
export { MANIFEST_NAME, type Manifest, type ManifestFile, manifestBytes, readManifest } from './manifest.ts'
export {
  arrayValues,
  countValue,
  type GgufEntry,
  type GgufFile,
  type GgufTensor,
  type OpenGgufOptions,
  openGguf,
  stringValue,
} from './read.ts'
export { type SplitOptions, splitModel } from './split.ts'
export { type ModelFacts, modelFacts } from './stage.ts'
export { type SynthOptions, type SynthType, synthModel, synthPresets } from './synth.ts'
export { encodeArray, encodeEntry, type TensorSource, type WriteGgufOptions, writeGguf } from './write.ts'
