import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import { modelDir } from 'seamline/profile'
import { createCatalogue } from '../catalogue.ts'
import { type Context, command, wholeNumber } from '../command.ts'
import { type AaResult, aaOf, aaPlan } from '../compare/aa.ts'
import { buildOf } from '../compare/builds.ts'
import { signedPct } from '../compare/print.ts'
import { ExitCode } from '../exit-codes.ts'
import { createPeers } from '../peers.ts'
import { derivedJson } from '../session/canonical.ts'
import { type Cell, parseCell } from '../session/cell.ts'
import { runSession, thisBuild } from '../session/run-session.ts'
import { readSession } from '../session/store.ts'
import { table } from '../ui.ts'

interface AaOptions {
  readonly micro: number
  readonly e2e?: boolean
  readonly pairs: number
  readonly time: number
  readonly resample: number
  readonly mde: number
  readonly out?: string
  readonly read?: string
}

/** More false verdicts than this, in percent, and comparisons cannot be believed. */
const MOST_FALSE_PCT = 5
const ALPHA = 0.05

export function aaCommand(): Command {
  return command<AaOptions>(
    'aa',
    'Compare this commit with a copy of itself: how often something is found where nothing is.',
    aa,
  )
    .option('--micro <n>', 'so many cases, spread over all groups', wholeNumber(0, 200), 20)
    .option('--e2e', 'also two pipelines of stories260K, over tcp and through a relay')
    .option('--pairs <n>', 'pairs for each', wholeNumber(6, 200), 12)
    .option('--time <ms>', 'time of a case in each run', wholeNumber(10, 60_000), 200)
    .option('--resample <n>', 'comparisons made up from the recorded noise', wholeNumber(100, 100_000), 2000)
    .option('--mde <percent>', 'less than this counts as nothing', Number, 3)
    .option('--out <dir>', 'where the session goes (default: below the folder of models)')
    .option('--read <dir>', 'say again what such a folder says, and run nothing')
}

async function aa(context: Context, options: AaOptions): Promise<ExitCode> {
  const { ui } = context
  const dir = options.read ?? (await measured(context, options))
  const { mde: minimumEffectPct, resample: comparisons } = options
  const found = aaOf(await readSession(dir), { minimumEffectPct, alpha: ALPHA, comparisons })
  await writeFile(join(dir, 'aa.json'), derivedJson(found))
  ui.record({ type: 'aa', dir, ...found })
  ui.print(aaText(found))
  ui.print(`\nkept in ${dir}`)
  return found.resampled.falsePct <= MOST_FALSE_PCT &&
    100 * found.falseOnes <= MOST_FALSE_PCT * found.rows.length
    ? ExitCode.OK
    : ExitCode.CHECK_FAILED
}

async function measured(context: Context, options: AaOptions): Promise<string> {
  const here = await thisBuild()
  if (here.build.dirty)
    throw new SeamError('USAGE', 'there are changes that are not committed: a comparison is of commits')
  const cells: Record<string, Cell> = {}
  for (const id of await spread(options.micro)) cells[id] = { kind: 'micro', id, timeMs: options.time }
  if (options.e2e === true) {
    for (const transport of ['tcp', 'relay']) {
      const cell = { executor: 'llama', model: 'stories260K', transport, tokens: 128, promptTokens: 64 }
      cells[`stories260K ${transport}`] = parseCell(cell, 'cell')
    }
  }
  const { commit } = here.build
  const places = { base: await buildOf(context, commit), copy: await buildOf(context, commit, '-copy') }
  const at = new Date().toISOString().replaceAll(':', '-')
  const dir = options.out ?? join(modelDir(), 'sessions', `aa-${at}`)
  await runSession(context, dir, aaPlan(cells, options.pairs), places)
  return dir
}

/** Ids as far apart in the catalogue as can be, controls left out. */
async function spread(count: number): Promise<string[]> {
  const peers = createPeers()
  try {
    const { entries } = await createCatalogue(peers)
    const ids = entries
      .map((entry) => entry.case.id)
      .filter((id) => !id.startsWith('control/') && !id.includes('8MiB'))
    const chosen = Array.from(
      { length: Math.min(count, ids.length) },
      (_, i) => ids[Math.floor((i * ids.length) / count)]!,
    )
    return [...new Set(chosen)]
  } finally {
    await peers.dispose()
  }
}

function aaText({ rows, falseOnes, resampled, minimumEffectPct }: AaResult): string {
  const lines = rows.map(({ cell, pairs, effectPct, lowPct, highPct, p, verdict }) => [
    ...[
      cell,
      String(pairs),
      signedPct(effectPct),
      `${signedPct(lowPct)} … ${signedPct(highPct)}`,
      p.toPrecision(2),
      verdict,
    ],
  ])
  const { improved, regressed, total, falsePct } = resampled
  return [
    table(['the same twice', 'pairs', 'difference', 'interval', 'p', 'found'], lines, [1, 2, 3, 4]),
    '',
    `${falseOnes} of ${rows.length} found something of at least ${minimumEffectPct} % that is not there`,
    `resampled from their noise: ${improved} improved and ${regressed} regressed of ${total}, ${falsePct.toFixed(2)} %`,
  ].join('\n')
}
