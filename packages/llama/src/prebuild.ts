import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { llamaRelease } from './libraries.ts'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Where the build leaves the addon. */
export const builtAddon: string = join(root, 'dist', 'native', 'stage.node')

/** What an addon was built against; lies beside a prebuilt one as `stage.json`. */
export interface AddonBuild {
  /** Version of Node-API. */
  readonly napi: number
  /** Release of llama.cpp, e.g. `v0.5.0`. */
  readonly release: string
}

export interface Prebuild {
  readonly path: string
  /** Why it cannot be used; null when it can. */
  readonly obstacle: string | null
}

/** The prebuilt addon of the package for this platform, checked without loading it. */
export function prebuild(folder = join(root, 'prebuilds', `${process.platform}-${process.arch}`)): Prebuild {
  const path = join(folder, 'stage.node')
  return { path, obstacle: existsSync(path) ? obstacleOf(folder) : `no ${path}` }
}

function obstacleOf(folder: string): string | null {
  const path = join(folder, 'stage.json')
  let build: Partial<AddonBuild> | null
  try {
    build = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    return `${path} cannot be read: ${(error as Error).message}`
  }
  if (typeof build?.napi !== 'number' || typeof build.release !== 'string') {
    return `${path} must be an object with a number napi and a string release`
  }
  const napi = Number(process.versions.napi)
  if (build.napi > napi) return `${path} says Node-API ${build.napi}, this Node has ${napi}`
  let release: string
  try {
    release = llamaRelease()
  } catch (error) {
    return `the release of the installed node-llama-cpp is unknown: ${(error as Error).message.split('\n')[0]}`
  }
  if (build.release !== release) {
    return `${path} says llama.cpp ${build.release}, the installed node-llama-cpp brings ${release}`
  }
  return null
}
