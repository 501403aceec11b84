import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { arch, cpus, loadavg, platform, release, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { alignedBytes } from '@seamline/core'
import { codecs } from 'seamline/cluster'

/** What figures depend on. `null`: this host does not say. */
export interface Environment {
  readonly cpu: string
  readonly cores: number
  readonly governor: string | null
  readonly memoryBytes: number
  readonly platform: string
  readonly kernel: string
  readonly node: string
  readonly v8: string
  /** Mean number of running processes over the last 1, 5 and 15 minutes. */
  readonly load: readonly number[]
  readonly commit: string | null
  /** Whether files differ from the commit. */
  readonly dirty: boolean | null
  /** Where memory begins in its buffer, modulo 4096: ordinary aligned memory, a small pooled Buffer, and the arenas of codecs. */
  readonly bufferOffsets: Readonly<Record<string, number>>
  readonly startedAt: string
}

export async function readEnvironment(): Promise<Environment> {
  const [commit, changes, governor] = await Promise.all([
    git('rev-parse', 'HEAD'),
    git('status', '--porcelain', '--untracked-files=no'),
    readFile('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor', 'utf8').catch(() => undefined),
  ])
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    governor: governor?.trim() ?? null,
    memoryBytes: totalmem(),
    platform: `${platform()} ${arch()}`,
    kernel: release(),
    node: process.versions.node,
    v8: process.versions.v8,
    load: loadavg().map((load) => Math.round(load * 100) / 100),
    commit: commit?.trim() ?? null,
    dirty: changes === undefined ? null : changes.trim() !== '',
    bufferOffsets: bufferOffsets(),
    startedAt: new Date().toISOString(),
  }
}

function bufferOffsets(): Record<string, number> {
  const offsets: Record<string, number> = {
    aligned: alignedBytes(1).byteOffset,
    pooledBuffer: Buffer.allocUnsafe(64).byteOffset % 4096,
  }
  for (const [name, make] of codecs) {
    const memory = make({ arenaBytes: 64 }).allocate?.(64)
    if (memory !== undefined) offsets[name] = memory.byteOffset % 4096
  }
  return offsets
}

async function git(...args: string[]): Promise<string | undefined> {
  try {
    const cwd = dirname(fileURLToPath(import.meta.url))
    const { stdout } = await promisify(execFile)('git', args, { cwd, timeout: 10_000 })
    return stdout
  } catch {
    return undefined
  }
}
