import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SeamError } from '@seamline/core'
import { type LayerRange, MANIFEST_NAME, splitModel } from '@seamline/gguf'
import { type Context, command, integer } from '../command.ts'
import { type Comparison, comparePipelines } from '../compare.ts'
import { ExitCode } from '../exit-codes.ts'
import { type MatrixModel, matrixModels } from '../matrix.ts'
import { modelDir } from '../model-dir.ts'
import { addPipelineOptions, type EngineOptions, engineSettings } from '../options.ts'
import { withLocalPipeline } from '../pipelines.ts'
import { type PreparedSplit, rangeText, readSplit, splitFacts, splitStages } from '../prepare.ts'
import type { SeamSettings } from '../settings.ts'
import { synthesise } from '../synthesise.ts'
import { table } from '../ui.ts'
import { isWeak, promptsFor, WEAK_BELOW } from './certify.ts'

interface CertifyAllOptions extends EngineOptions, SeamSettings {
  readonly only?: readonly string[]
  readonly tokens: number
  readonly promptTokens: number
  readonly out?: string
}

/** One model at one cut. */
interface Row extends Comparison {
  readonly model: string
  readonly splitting: string
  readonly stages: readonly string[]
  readonly weak: boolean
}

export function certifyAllCommand() {
  const made = command<CertifyAllOptions>('certify-all', 'certify a small model of every architecture', run)
    .option('--only <names>', 'these models, by the names in the table, separated by semicolons', names)
    .option('--prompt-tokens <n>', 'tokens of the prompt', integer(1), 80)
    .option('--tokens <n>', 'tokens to generate after it', integer(1), 64)
    .option('-o, --out <file>', 'write the JSON document here as well')
    .addHelpText(
      'after',
      `
Makes a model of random weights of every architecture that can be made, of two K-quants and one in shards, splits
each in two ways and compares the logits of every step bit for bit, and the tokens, with the whole model.`,
    )
  return addPipelineOptions(made)
}

async function run(context: Context, options: CertifyAllOptions): Promise<ExitCode> {
  const { ui } = context
  const models = chosen(options.only)
  const folder = await mkdtemp(join(modelDir(), 'certify-all-'))
  const rows: Row[] = []
  try {
    for (const [i, model] of models.entries()) {
      ui.progress(`${model.name}: ${i + 1} of ${models.length}`)
      rows.push(...(await certifyModel(context, options, model, join(folder, String(i)))))
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  const certified = rows.every(({ identical }) => identical)
  const weak = rows.filter((row) => row.weak).length
  const lines = rows.map((row) => [
    ...[row.model, row.splitting, row.stages.join(' '), `${row.equalTokens}/${row.steps}`],
    ...[`${row.distinctTokens}${row.weak ? ' (weak)' : ''}`, String(row.maxAbsDiff)],
    row.identical ? 'identical' : 'DIFFERENT',
  ])
  const head = ['model', 'how it splits', 'layers', 'equal tokens', 'distinct', 'max |diff|', '']
  ui.print(table(head, lines, [3, 5]))
  if (weak > 0) ui.print(`weak: fewer than ${WEAK_BELOW} distinct tokens in ${weak} of ${rows.length} runs`)
  ui.print(
    certified
      ? `Every one of ${models.length} models, each cut in two ways, computes what the whole one does.`
      : 'NOT every split model computes the same.',
  )
  const { promptTokens, tokens } = options
  const document = { certified, promptTokens, tokens, results: rows }
  if (options.out !== undefined) await writeFile(options.out, `${JSON.stringify(document, null, 2)}\n`)
  ui.result(document)
  return certified ? ExitCode.OK : ExitCode.CHECK_FAILED
}

function chosen(only: readonly string[] | undefined): MatrixModel[] {
  const models = matrixModels()
  const known = models.map(({ name }) => name)
  const unknown = only?.find((name) => !known.includes(name))
  if (unknown !== undefined) {
    throw new SeamError('USAGE', `there is no model "${unknown}"; choose from ${known.join('; ')}`)
  }
  return models.filter(({ name }) => only?.includes(name) ?? true)
}

async function certifyModel(
  context: Context,
  options: CertifyAllOptions,
  { name, splitting, make, cuts }: MatrixModel,
  folder: string,
): Promise<Row[]> {
  const { signal } = context
  const { tokens, promptTokens } = options
  const made = await synthesise(context, { ...make, path: `${folder}.gguf` })
  const [model] = made.paths
  const engine = engineSettings(options, make.context, 1)
  const [prompts = []] = promptsFor(
    { k: 1, tokens, prompts: [promptTokens] },
    make.vocabulary,
    engine.ctx,
    model,
  )
  const whole = { seam: options, engine, stages: [{ model }], names: ['unsplit'], expected: {} }
  return withLocalPipeline(context, whole, async (reference) => {
    const rows: Row[] = []
    for (const [i, ranges] of cuts.entries()) {
      const split = await splitInto(join(folder, String(i)), model, ranges, signal)
      const parts = { seam: options, engine, stages: splitStages(split), expected: splitFacts(split) }
      const [result] = await withLocalPipeline(context, parts, (candidate) =>
        comparePipelines({ reference, candidate, prompts, tokens, signal }),
      )
      const stages = ranges.map(rangeText)
      rows.push({ model: name, splitting, stages, ...result!, weak: isWeak(result!, tokens) })
    }
    return rows
  })
}

async function splitInto(
  outDir: string,
  source: string,
  stages: readonly LayerRange[],
  signal: AbortSignal,
): Promise<PreparedSplit> {
  await splitModel({ source, outDir, stages, signal })
  return readSplit(join(outDir, MANIFEST_NAME))
}

function names(text: string): string[] {
  return text.split(';').map((name) => name.trim())
}
