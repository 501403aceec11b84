import { codecs, framings, transports } from '../cluster.ts'
import { type Context, command, integer } from '../command.ts'
import { type Comparison, comparePipelines } from '../compare.ts'
import { ExitCode } from '../exit-codes.ts'
import { warnOfHome } from '../model-dir.ts'
import { addSeamOptions, type EngineOptions, engineSettings } from '../options.ts'
import { withLocalPipeline } from '../pipelines.ts'
import { prepareSplit, rangeText, splitFacts, splitStages } from '../prepare.ts'
import type { SeamSettings } from '../settings.ts'
import { table } from '../ui.ts'
import { promptsFor } from './certify.ts'
import { stagesOption } from './split.ts'

interface CertifySeamsOptions extends EngineOptions, Omit<SeamSettings, 'codec' | 'framing' | 'transport'> {
  readonly model: string
  readonly stages?: number
  readonly tokens: number
  readonly promptTokens: number
}

/** One seam: what lies between the stages. */
interface Seam {
  readonly transport: string
  readonly secure: boolean
  readonly framing: string
  readonly codec: string
}

interface Row extends Seam, Pick<Comparison, 'steps' | 'equalTokens' | 'maxAbsDiff' | 'identical'> {}

export function certifySeamsCommand() {
  const made = command<CertifySeamsOptions>(
    'certify-seams',
    'certify one model over every transport, framing and lossless codec',
    run,
  )
    .requiredOption('-m, --model <file>', 'GGUF file of the whole model')
    .addOption(stagesOption())
    .option('--prompt-tokens <n>', 'tokens of the prompt', integer(1), 80)
    .option('--tokens <n>', 'tokens to generate after it', integer(1), 64)
    .addHelpText(
      'after',
      `
Runs the whole model in one worker process and its stages in others over one seam after the other, and compares the logits of
every step bit for bit, and the tokens.`,
    )
  return addSeamOptions(made)
}

async function run(context: Context, options: CertifySeamsOptions): Promise<ExitCode> {
  const { ui, signal } = context
  const { model, stages = 2, tokens, promptTokens } = options
  warnOfHome(ui, model)
  const split = await prepareSplit(context, model, stages)
  const { manifest } = split
  const engine = engineSettings(options, manifest.contextLength, 1)
  const lengths = { k: 1, tokens, prompts: [promptTokens] }
  const [prompts = []] = promptsFor(lengths, manifest.vocabulary, engine.ctx, model)
  const rows: Row[] = []
  const seams = everySeam()
  const plain = { ...options, transport: 'tcp' }
  const whole = { seam: plain, engine, stages: [{ model }], names: ['unsplit'], expected: {} }
  await withLocalPipeline(context, whole, async (reference) => {
    for (const [i, seam] of seams.entries()) {
      ui.progress(`seam ${i + 1} of ${seams.length}: ${seam.transport}, ${seam.framing}, ${seam.codec}`)
      const parts = { engine, stages: splitStages(split), expected: splitFacts(split) }
      const [result] = await withLocalPipeline(
        context,
        { ...parts, seam: { ...options, ...seam } },
        (candidate) => comparePipelines({ reference, candidate, prompts, tokens, signal }),
      )
      const { steps, equalTokens, maxAbsDiff, identical } = result!
      rows.push({ ...seam, steps, equalTokens, maxAbsDiff, identical })
    }
  })
  const certified = rows.every(({ identical }) => identical)
  ui.print(`${model}: layers ${manifest.stages.map(rangeText).join(', ')}`)
  const lines = rows.map((row) => [
    ...[row.transport, row.secure ? 'TLS' : '', row.framing, row.codec, `${row.equalTokens}/${row.steps}`],
    ...[String(row.maxAbsDiff), row.identical ? 'identical' : 'DIFFERENT'],
  ])
  ui.print(table(['transport', '', 'framing', 'codec', 'equal tokens', 'max |diff|', ''], lines, [4, 5]))
  ui.print(
    certified
      ? 'Over every seam the split model computes what the whole one does.'
      : 'NOT every seam gives the same.',
  )
  ui.result({ certified, promptTokens, tokens, stages, results: rows })
  return certified ? ExitCode.OK : ExitCode.CHECK_FAILED
}

function everySeam(): Seam[] {
  const lossless = [...codecs].filter(([, make]) => !make().lossy).map(([id]) => id)
  return [...transports.keys()].flatMap((transport) =>
    [false, true].flatMap((secure) =>
      [...framings.keys()].flatMap((framing) =>
        lossless.map((codec) => ({ transport, secure, framing, codec })),
      ),
    ),
  )
}
