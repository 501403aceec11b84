import { SeamError } from '@seamline/core'
import { asObject, knownFields, oneOf, text, whole } from '../session/cell.ts'

const kinds = ['model', 'split manifest', 'stage file', 'library', 'other'] as const

/** A file that runs used and that is too large, or not ours, to lie in the bundle. */
export interface Artifact {
  readonly kind: (typeof kinds)[number]
  readonly name: string
  /** Null where the file was not at hand when the bundle was made. */
  readonly bytes: number | null
  readonly sha256: string
  readonly source: string
}

export function parseArtifacts(value: unknown): Artifact[] {
  if (!Array.isArray(value) || value.length > 10_000)
    throw new SeamError('USAGE', 'artifacts: a list is needed')
  return value.map((each, i) => {
    const where = `artifacts[${i}]`
    const given = asObject(each, where)
    knownFields(given, ['kind', 'name', 'bytes', 'sha256', 'source'], where)
    return {
      kind: oneOf(given.kind, kinds, `${where}.kind`),
      name: text(given.name, `${where}.name`),
      bytes: given.bytes === null ? null : whole(given.bytes, `${where}.bytes`, 0, Number.MAX_SAFE_INTEGER),
      sha256: text(given.sha256, `${where}.sha256`),
      source: text(given.source, `${where}.source`),
    }
  })
}
