import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { MANIFEST_NAME, readManifest } from '@seamline/gguf'
import { findLibraries } from '@seamline/llama'
import { modelDir } from 'seamline/profile'
import { rootDir } from '../root.ts'
import { sha256 } from '../session/canonical.ts'
import { notRecorded } from '../session/guards.ts'
import type { Artifact } from './artifacts.ts'
import type { Bundle } from './bundle.ts'
import { fileSha256 } from './files.ts'
import { located } from './paths.ts'

type Used = Pick<Bundle, 'sessions' | 'spec'>

/** What the guards of the runs name: models and splits by SHA-256, and whether llama.cpp's libraries were used. */
function usedBy({ sessions }: Used) {
  const models = new Map<string, string>()
  const manifests = new Set<string>()
  const libraries = new Set<string>()
  for (const { stored } of sessions) {
    for (const { cell, guards } of stored.records.values()) {
      if (guards === null || cell.kind !== 'pipeline' || cell.model === null) continue
      if (guards.modelSha256 !== notRecorded) models.set(guards.modelSha256, cell.model)
      if (guards.manifestSha256 !== notRecorded) manifests.add(guards.manifestSha256)
      if (guards.libraries !== notRecorded) libraries.add(guards.libraries)
    }
  }
  return { models, manifests, libraries }
}

/**
 * Finds the files that the runs used, in the folder of models and where libraries are. `known`: of an earlier bundle, taken where a file
 * is no longer at hand.
 */
export async function findArtifacts(
  bundle: Used,
  dir: string,
  known: readonly Artifact[],
): Promise<Artifact[]> {
  const { models, manifests, libraries } = usedBy(bundle)
  const found: Artifact[] = []
  const entries = JSON.parse(await readFile(join(rootDir, 'benchmarks', 'models.json'), 'utf8')) as Record<
    string,
    { readonly file?: string; readonly synthetic?: object }
  >
  for (const [digest, model] of models) {
    const entry = entries[model]
    const file = entry?.file ?? `${model}.gguf`
    const bytes = await stat(join(modelDir(), file)).then(
      ({ size }) => size,
      () => known.find((each) => each.sha256 === digest)?.bytes ?? null,
    )
    const source = entry?.synthetic === undefined ? '$MODEL_DIR' : `made by benchmarks/models.json, ${model}`
    found.push({ kind: 'model', name: file, bytes, sha256: digest, source })
  }
  found.push(...(await splitFiles(manifests, known)))
  if (libraries.size > 0) found.push(...(await libraryFiles()))
  for (const { name, path, source } of bundle.spec.artifacts) {
    const file = located(path, dir)
    const { size } = await stat(file)
    found.push({ kind: 'other', name, bytes: size, sha256: await fileSha256(file), source })
  }
  return found.sort((a, b) => (`${a.kind} ${a.name}` < `${b.kind} ${b.name}` ? -1 : 1))
}

async function libraryFiles(): Promise<Artifact[]> {
  const folder = findLibraries()
  const names = (await readdir(folder)).filter(isLibrary)
  return Promise.all(
    names.map(async (name): Promise<Artifact> => {
      const { size } = await stat(join(folder, name))
      const digest = await fileSha256(join(folder, name))
      return {
        kind: 'library',
        name,
        bytes: size,
        sha256: digest,
        source: 'llama.cpp, as packages/llama pins it',
      }
    }),
  )
}

function isLibrary(name: string): boolean {
  return /\.(so|dylib|dll)(\.|$)/.test(name)
}

/** Manifests of splits and the stage files beside them. */
async function splitFiles(manifests: ReadonlySet<string>, known: readonly Artifact[]): Promise<Artifact[]> {
  const found: Artifact[] = []
  const missing = new Set(manifests)
  const splits = join(modelDir(), 'splits')
  for (const folder of missing.size === 0 ? [] : await readdir(splits).catch(() => [])) {
    const path = join(splits, folder, MANIFEST_NAME)
    const manifest = await readManifest(path).catch(() => undefined)
    if (manifest === undefined || !missing.delete(manifest.manifestSha256)) continue
    const source = `$MODEL_DIR/splits/${folder}`
    const { size } = await stat(path)
    const digest = manifest.manifestSha256
    found.push({ kind: 'split manifest', name: MANIFEST_NAME, bytes: size, sha256: digest, source })
    for (const { file, byteLength, sha256 } of [...manifest.stages, manifest.tokenizer])
      found.push({ kind: 'stage file', name: file, bytes: byteLength, sha256, source })
  }
  for (const digest of missing) {
    const before = known.find((each) => each.sha256 === digest)
    if (before !== undefined) found.push(...known.filter(({ source }) => source === before.source))
    else
      found.push({
        ...({ kind: 'split manifest', name: MANIFEST_NAME, bytes: null, sha256: digest } as const),
        source: notRecorded,
      })
  }
  return found
}

/** What the runs name and the list lacks, in words. */
export function missingArtifacts(bundle: Bundle): string[] {
  const { models, manifests, libraries } = usedBy(bundle)
  const has = (digest: string) => bundle.artifacts.some((each) => each.sha256 === digest)
  const lines = bundle.artifacts
    .filter(({ kind }) => kind === 'library')
    .map(({ name, sha256 }) => `${name} ${sha256}`)
    .sort()
  const together = sha256(lines.join('\n'))
  return [
    ...[...models]
      .filter(([digest]) => !has(digest))
      .map(([digest, name]) => `model ${name} with the SHA-256 ${digest}`),
    ...[...manifests]
      .filter((digest) => !has(digest))
      .map((digest) => `split manifest with the SHA-256 ${digest}`),
    ...[...libraries]
      .filter((digest) => digest !== together)
      .map((digest) => `libraries with the digest ${digest}`),
  ]
}
