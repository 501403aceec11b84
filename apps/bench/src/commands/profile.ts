import { writeFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BenchCase } from '@seamline/conformance'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import { createCatalogue } from '../catalogue.ts'
import { type Context, command, wholeNumber } from '../command.ts'
import { type CpuProfile, type SelfTime, selfTimes, startCpuProfile } from '../cpu-profile.ts'
import { ExitCode } from '../exit-codes.ts'
import { measureBlock } from '../measure.ts'
import { createPeers } from '../peers.ts'
import { duration } from '../report.ts'
import { findCase } from '../selection.ts'
import { table } from '../ui.ts'

interface ProfileOptions {
  readonly time: number
  readonly top: number
  readonly out?: string
}

export function profileCommand(): Command {
  return command<ProfileOptions, readonly [id: string]>(
    'profile',
    'Run one case alone in this process and take a CPU profile of it.',
    profile,
  )
    .argument('<id>', 'of the case, as --list prints it')
    .option('--time <ms>', 'how long', wholeNumber(100, 600_000), 3000)
    .option('--top <n>', 'functions in the table', wholeNumber(1, 1000), 15)
    .option('--out <file>', 'of the profile, replaced if there is one (default: the id, with .cpuprofile)')
}

async function profile(
  { ui, signal }: Context,
  { time, top, out }: ProfileOptions,
  id: string,
): Promise<ExitCode> {
  const peers = createPeers()
  try {
    const { case: found } = findCase(await createCatalogue(peers), id)
    const sampled = profiled(found)
    ui.note(`1 case, about ${Math.ceil((1.1 * time) / 1000)} s`)
    const [outcome] = await measureBlock([sampled.case], {
      ...{ signal, timeMs: time, smoke: false },
      onProgress: (text) => ui.progress(text),
    })
    if (outcome === undefined || 'failure' in outcome)
      throw outcome?.failure ?? new SeamError('EXECUTOR', `${id} did not run`)
    const made = sampled.profile()
    const file = out ?? `${id.replaceAll('/', '-')}.cpuprofile`
    await write(file, made)
    const functions = selfTimes(made)
    const { p50Ns, samples } = outcome.measurement!
    ui.print(`${id}: p50 ${duration(p50Ns)} of ${samples} samples, slower for being profiled\n`)
    ui.print(selfTable(functions.slice(0, top)))
    ui.print(`\n${file}: opens in DevTools (Performance, load profile) and at speedscope`)
    ui.record({
      ...{ type: 'profile', id, file, p50Ns, samples },
      functions: functions.slice(0, top).map(({ url, ...rest }) => ({ ...rest, url: shortUrl(url) })),
    })
    return ExitCode.OK
  } finally {
    await peers.dispose()
  }
}

/** The case with a profiler that runs from the end of its first validation to the beginning of its last: while it is timed. */
function profiled(found: BenchCase): { readonly case: BenchCase; profile(): CpuProfile } {
  let stop: (() => Promise<CpuProfile>) | undefined
  let made: CpuProfile | undefined
  return {
    profile: () => made!,
    case: {
      ...found,
      async validate() {
        if (stop === undefined) {
          await found.validate()
          stop = await startCpuProfile()
        } else {
          made = await stop()
          await found.validate()
        }
      },
    },
  }
}

async function write(file: string, made: CpuProfile): Promise<void> {
  try {
    await writeFile(file, JSON.stringify(made))
  } catch (cause) {
    throw new SeamError('FILE', `${file} cannot be written: ${(cause as Error).message}`, { cause })
  }
}

function selfTable(functions: readonly SelfTime[]): string {
  const rows = functions.map(({ name, url, line, selfMs, share }) => [
    `${selfMs.toFixed(1)} ms`,
    `${(100 * share).toFixed(1)} %`,
    name,
    url === '' || line === 0 ? shortUrl(url) : `${shortUrl(url)}:${line}`,
  ])
  return table(['self', 'of all', 'function', 'where'], rows, [0, 1])
}

/** Files from the root of the repository on, those of packages from their name on. */
function shortUrl(url: string): string {
  if (!url.startsWith('file:')) return url
  const root = fileURLToPath(new URL('../../../../', import.meta.url))
  return relative(root, fileURLToPath(url)).replace(/^.*node_modules\//, '')
}
