/**
 * Read, write, split, hash and synthesise GGUF files with bounded memory.
 *
 * @packageDocumentation
 */
export { type ArchitectureRules, architectures } from './architectures.ts'
export {
  ensureRoom,
  type FreeBytes,
  type HashOptions,
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
export {
  MANIFEST_NAME,
  type Manifest,
  type ManifestFile,
  type ManifestStage,
  manifestBytes,
  readManifest,
} from './manifest.ts'
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
export { type GgufModel, hashModel, openModel, type ShardOptions, shardModel } from './shards.ts'
export { type SplitOptions, splitModel } from './split.ts'
export { type ModelFacts, modelFacts } from './stage.ts'
export {
  type SynthOptions,
  type SynthType,
  synthArchitectures,
  synthModel,
  synthPresets,
  synthTypes,
} from './synth.ts'
export type { SynthArchitecture } from './synth-models.ts'
export { encodeArray, encodeEntry, type TensorSource, type WriteGgufOptions, writeGguf } from './write.ts'
