import { join } from 'node:path'
import { type LayerRange, MANIFEST_NAME, parseLayerRanges, splitModel } from '@seamline/gguf'
import { Option } from 'commander'
import { command, integer } from '../command.ts'
import { byteProgress, bytes, table } from '../ui.ts'

interface SplitCommandOptions {
  readonly model: string
  readonly stages?: number
  readonly layers?: readonly LayerRange[]
  readonly out: string
  readonly force?: boolean
}

export function splitCommand() {
  return command<SplitCommandOptions>(
    'split',
    'split a GGUF model into stages',
    async ({ ui, signal }, options) => {
      const { model, out } = options
      const manifest = await splitModel({
        source: model,
        outDir: out,
        stages: options.layers ?? options.stages ?? 2,
        reuse: options.force === true ? 'never' : 'hashes',
        onProgress: byteProgress(ui, `splitting ${model}`),
        signal,
      })
      const rows = manifest.stages.map(({ layerFirst, layerEnd, file, byteLength }, stage) => [
        String(stage),
        `${layerFirst}-${layerEnd}`,
        bytes(byteLength),
        join(out, file),
      ])
      ui.print(table(['stage', 'layers', 'size', 'file'], rows, [2]))
      ui.print(`manifest: ${join(out, MANIFEST_NAME)}`)
      ui.print(
        `A worker needs its stage and the manifest; \`run\` needs ${manifest.tokenizer.file} and the manifest.`,
      )
      ui.result({ manifest: join(out, MANIFEST_NAME), ...manifest })
      return undefined
    },
  )
    .requiredOption('-m, --model <file>', 'GGUF file of the whole model')
    .addOption(stagesOption())
    .addOption(layersOption())
    .requiredOption('-o, --out <folder>', 'where to write the stages, the tokenizer and the manifest')
    .option('--force', 'write again what is already there')
}

export function stagesOption(): Option {
  return new Option('--stages <n>', 'number of stages, balanced by bytes (default: 2)')
    .argParser(integer(1))
    .conflicts('layers')
}

export function layersOption(): Option {
  return new Option('--layers <ranges>', 'layers of each stage, half-open, for example 0-8,8-16').argParser(
    parseLayerRanges,
  )
}
