import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { SeamError } from '@seamline/core'

const PACKAGES: Record<string, string> = {
  'linux-x64': 'linux-x64',
  'linux-arm64': 'linux-arm64',
  'linux-arm': 'linux-armv7l',
  'darwin-arm64': 'mac-arm64-metal',
  'darwin-x64': 'mac-x64',
}

/**
 * Folder of the prebuilt llama.cpp libraries inside the installed node-llama-cpp, or the value of the
 * environment variable SEAMLINE_LLAMA_LIBS where that is set. Throws `UNSUPPORTED` where there is none for
 * this platform.
 */
export function findLibraries(): string {
  const chosen = process.env.SEAMLINE_LLAMA_LIBS
  if (chosen !== undefined && chosen !== '') return chosen
  const platform = `${process.platform}-${process.arch}`
  const name = PACKAGES[platform]
  if (name === undefined) {
    throw new SeamError(
      'UNSUPPORTED',
      `no llama.cpp libraries for ${platform}; there are some for ${Object.keys(PACKAGES).join(', ')}`,
    )
  }
  try {
    const entry = createRequire(nodeLlamaCpp()).resolve(`@node-llama-cpp/${name}`)
    return join(dirname(entry), '..', 'bins', name)
  } catch (error) {
    throw new SeamError(
      'UNSUPPORTED',
      `@node-llama-cpp/${name} is not installed: install without --no-optional, or set SEAMLINE_LLAMA_LIBS to the folder of libllama`,
      { cause: error },
    )
  }
}

/** Release of llama.cpp in the installed node-llama-cpp, e.g. `v0.5.0`. */
export function llamaRelease(): string {
  const info = join(dirname(nodeLlamaCpp()), '..', 'llama', 'llama.cpp.info.json')
  return JSON.parse(readFileSync(info, 'utf8')).tag
}

/** The entry file of the installed node-llama-cpp. */
export function nodeLlamaCpp(): string {
  return createRequire(import.meta.url).resolve('node-llama-cpp')
}
