import {
  type SynthArchitecture,
  type SynthType,
  synthArchitectures,
  synthPresets,
  synthTypes,
} from '@seamline/gguf'
import { type QuantizeType, quantizeTypes } from '@seamline/llama/quantize'
import { Option } from 'commander'
import { command, integer } from '../command.ts'
import { type SynthesiseOptions, synthesise } from '../synthesise.ts'
import { bytes } from '../ui.ts'

interface Shape extends Omit<SynthesiseOptions, 'path' | 'seed' | 'tied'> {
  readonly architecture?: SynthArchitecture
  readonly type: SynthType
  readonly quantize?: QuantizeType | undefined
}

interface SynthCommandOptions extends Partial<Shape> {
  readonly out: string
  readonly preset: keyof typeof synthPresets
  readonly seed: number
  readonly tied?: boolean
}

export function synthCommand() {
  return command<SynthCommandOptions>('synth', 'make a model of random weights', async (context, options) => {
    const { ui } = context
    const { out, preset, ...given } = options
    const shape = { ...synthPresets[preset], ...given }
    const { paths, ...written } = await synthesise(context, { ...shape, path: out })
    ui.print(`${paths.join('\n')}: ${bytes(written.byteLength)}, SHA-256 ${written.sha256}`)
    ui.print('Its weights are random: it runs like a trained model of its shape and writes noise.')
    ui.result({ file: paths[0], files: paths, ...written, seed: options.seed, shape: pickShape(shape) })
    return undefined
  })
    .requiredOption('-o, --out <file>', 'where to write the GGUF file')
    .addOption(
      new Option('--preset <name>', 'shape to start from').choices(Object.keys(synthPresets)).default('demo'),
    )
    .addOption(
      new Option('--architecture <name>', 'what kind of model (default: llama)').choices(synthArchitectures),
    )
    .option('--width <n>', 'values in a hidden row (n_embd)', integer(1))
    .option('--layers <n>', 'layers', integer(1))
    .option('--feed-forward <n>', 'feed-forward width', integer(1))
    .option('--heads <n>', 'attention heads', integer(1))
    .option('--kv-heads <n>', 'key and value heads; divides the heads', integer(1))
    .option('--vocabulary <n>', 'tokens', integer(1))
    .option('--context <n>', 'positions the model says it was trained for', integer(1))
    .addOption(new Option('--type <type>', 'type of every matrix').choices(synthTypes).conflicts('quantize'))
    .addOption(
      new Option(
        '--quantize <type>',
        "instead: by llama.cpp's own quantiser, which picks a type a matrix",
      ).choices(Object.keys(quantizeTypes)),
    )
    .option('--shards <n>', 'write n files, <out>-00001-of-0000n.gguf and so on', integer(1, 99999))
    .option('--tied', 'one tensor as token embedding and head')
    .option('--seed <n>', 'the same shape and seed give the same bytes', integer(0, 0xffffffff), 1)
}

function pickShape(shape: Shape) {
  const { architecture = 'llama', width, layers, feedForward, heads, kvHeads } = shape
  const { vocabulary, context, quantize, type } = shape
  return {
    ...{ architecture, width, layers, feedForward, heads, kvHeads, vocabulary, context },
    type: quantize ?? type,
  }
}
