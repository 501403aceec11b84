import { type SynthOptions, type SynthType, synthModel, synthPresets } from '@seamline/gguf'
import { Option } from 'commander'
import { command, integer } from '../command.ts'
import { byteProgress, bytes } from '../ui.ts'

type SynthShape = Omit<SynthOptions, 'path' | 'seed' | 'tied' | 'onProgress' | 'signal' | 'freeBytes'>

interface SynthCommandOptions extends Partial<SynthShape> {
  readonly out: string
  readonly preset: keyof typeof synthPresets
  readonly seed: number
  readonly tied?: boolean
}

const TYPES: readonly SynthType[] = ['F32', 'F16', 'Q8_0', 'Q4_0']

export function synthCommand() {
  return command<SynthCommandOptions>(
    'synth',
    'make a model of random weights',
    async ({ ui, signal }, options) => {
      const { out, preset, ...given } = options
      const shape = { ...synthPresets[preset], ...given }
      const written = await synthModel({
        ...shape,
        path: out,
        signal,
        onProgress: byteProgress(ui, `writing ${out}`),
      })
      ui.print(`${out}: ${bytes(written.byteLength)}, SHA-256 ${written.sha256}`)
      ui.print('Its weights are random: it runs like a trained model of its shape and writes noise.')
      ui.result({ file: out, ...written, seed: options.seed, shape: pickShape(shape) })
      return undefined
    },
  )
    .requiredOption('-o, --out <file>', 'where to write the GGUF file')
    .addOption(
      new Option('--preset <name>', 'shape to start from').choices(Object.keys(synthPresets)).default('demo'),
    )
    .option('--width <n>', 'values in a hidden row (n_embd)', integer(1))
    .option('--layers <n>', 'layers', integer(1))
    .option('--feed-forward <n>', 'feed-forward width', integer(1))
    .option('--heads <n>', 'attention heads', integer(1))
    .option('--kv-heads <n>', 'key and value heads; divides the heads', integer(1))
    .option('--vocabulary <n>', 'tokens', integer(1))
    .option('--context <n>', 'positions the model says it was trained for', integer(1))
    .addOption(new Option('--type <type>', 'type of every matrix').choices(TYPES))
    .option('--tied', 'one tensor as token embedding and head')
    .option('--seed <n>', 'the same shape and seed give the same bytes', integer(0, 0xffffffff), 1)
}

function pickShape({
  width,
  layers,
  feedForward,
  heads,
  kvHeads,
  vocabulary,
  context,
  type,
}: SynthShape): SynthShape {
  return { width, layers, feedForward, heads, kvHeads, vocabulary, context, type }
}
