import type { LinkFacts, SamplerSettings } from '@seamline/core'
import { type Command, Option } from 'commander'
import { codecs, framings, transports } from './cluster.ts'
import { integer, number } from './command.ts'
import { parseLink } from './link.ts'
import type { EngineSettings, Regime } from './settings.ts'

/** What a command line says about {@link EngineSettings}; undefined where it says nothing. */
export interface EngineOptions {
  readonly chunk?: number
  readonly ctx?: number
  readonly threads?: number
  readonly flashAttn?: 'on' | 'off'
  readonly regime?: Regime
}

function addEngineOptions(command: Command): Command {
  return command
    .option(
      '--chunk <tokens>',
      'tokens in one prefill chunk, part of what makes an output reproducible (default: 64)',
      integer(1, 4096),
    )
    .option(
      '--ctx <tokens>',
      'positions of one sequence (default: what the model was trained for, at most 4096)',
      integer(1),
    )
    .option('--threads <n>', 'compute threads of each stage (default: 1)', integer(1, 1024))
    .addOption(new Option('--flash-attn <mode>', 'flash attention (default: on)').choices(['on', 'off']))
    .addOption(
      new Option(
        '--regime <name>',
        'per-row: exact at equal batch shapes; uniform: exact at any, slower (default: per-row)',
      ).choices(['per-row', 'uniform'] satisfies Regime[]),
    )
}

/** Completes the options for processes that this command starts. */
export function engineSettings(
  options: EngineOptions,
  trainedContext: number,
  sequences: number,
): EngineSettings {
  const {
    chunk = 64,
    ctx = Math.min(trainedContext, DEFAULT_CONTEXT),
    threads = 1,
    flashAttn = 'on',
    regime = 'per-row',
  } = options
  return { chunk, ctx, threads, flashAttn, regime, sequences }
}

/** What running workers must state, as far as the command line has an opinion. */
export function expectedFacts({ chunk, ctx, threads, flashAttn, regime }: EngineOptions): Partial<LinkFacts> {
  return {
    ...(chunk === undefined ? {} : { chunkTokens: chunk }),
    ...(ctx === undefined ? {} : { contextLength: ctx }),
    ...(threads === undefined ? {} : { threads }),
    ...(flashAttn === undefined ? {} : { flashAttention: flashAttn }),
    ...(regime === undefined ? {} : { regime }),
  }
}

/** Positions of one sequence when nobody says otherwise: KV memory grows with them. */
const DEFAULT_CONTEXT = 4096

/** Options of a command that coordinates workers: how they compute and what lies between them. */
export function addPipelineOptions(command: Command): Command {
  return addChainOptions(command).addOption(
    byName(
      '--codec <name>',
      'how hidden rows are encoded (default: any lossless one that both ends have)',
      codecs,
    ),
  )
}

/** The same without the codec. */
export function addChainOptions(command: Command): Command {
  return addProgressOption(addLinkOptions(addEngineOptions(command)))
}

/** Options of a command that goes through the parts of the seam by itself. */
export function addSeamOptions(command: Command): Command {
  return addProgressOption(addLivenessOption(addEngineOptions(command)))
}

function addProgressOption(command: Command): Command {
  return command.option(
    '--progress-deadline <ms>',
    'a compute step may take this long, and a wait without any step finished',
    integer(100, 86_400_000),
    60_000,
  )
}

function addLivenessOption(command: Command): Command {
  return command.option(
    '--liveness <ms>',
    'a process that is silent for this long is dead',
    integer(50, 3_600_000),
    5000,
  )
}

/** Options of a worker: the coordinator picks one of its codecs, and watches its progress. */
export function addWorkerOptions(command: Command): Command {
  return addLinkOptions(addEngineOptions(command)).addOption(
    byName('--codec <name>', 'offer this codec only (default: all)', codecs),
  )
}

/** Options of commands that talk to workers elsewhere. */
export function addSecurityOptions(command: Command): Command {
  return command.option(
    '--identity <dir>',
    "folder of this machine's key, certificate and secret, made on first use (default: SEAMLINE_IDENTITY_DIR, else in the user's state folder)",
  )
}

function addLinkOptions(command: Command): Command {
  return addLivenessOption(command)
    .addOption(byName('--framing <name>', 'how messages become bytes (default: all are offered)', framings))
    .addOption(
      byName(
        '--transport <name>',
        'what carries the bytes, for addresses that name none',
        transports,
      ).default('tcp'),
    )
    .option(
      '--link <shape>',
      'emulate a link: delay one way and rate, for example 20ms,100mbit; workers and coordinator alike',
      parseLink,
    )
    .option('--secure', 'TLS and a shared secret also on loopback; addresses then end in #FINGERPRINT')
}

/** For commands that may have several sequences in flight. */
export function rowsOption(): Option {
  return new Option(
    '--rows <n>',
    'sequences that may share a decode step; above 1 not bit-exact unless the regime is uniform',
  ).argParser(integer(1, 256))
}

function byName(flags: string, what: string, choices: ReadonlyMap<string, unknown>): Option {
  return new Option(flags, what).choices([...choices.keys()])
}

/** How a token is chosen. */
export interface SamplerOptions {
  readonly temp: number
  readonly topK: number
  readonly topP: number
  readonly minP: number
  readonly repeatPenalty: number
  readonly repeatLastN: number
  readonly seed?: number
}

export function addSamplerOptions(command: Command): Command {
  return command
    .option('--temp <t>', 'temperature; 0 takes the most likely token', number(0, 100), 0.8)
    .option('--top-k <n>', 'keep the n most likely tokens; 0 keeps all', integer(0), 40)
    .option(
      '--top-p <p>',
      'keep the most likely tokens up to this probability in all; 1 keeps all',
      number(0, 1),
      0.95,
    )
    .option(
      '--min-p <p>',
      'drop tokens below this share of the most likely one; 0 keeps all',
      number(0, 1),
      0.05,
    )
    .option('--repeat-penalty <r>', 'above 1 makes recent tokens less likely', number(0, 100), 1)
    .option('--repeat-last-n <n>', 'tokens that the penalty looks back on', integer(0, 4096), 64)
    .option(
      '--seed <n>',
      'the same seed, settings and prompt give the same text (default: random)',
      integer(0, 0xffffffff),
    )
}

export function samplerSettings(options: SamplerOptions): SamplerSettings {
  return {
    temperature: options.temp,
    topK: options.topK,
    topP: options.topP,
    minP: options.minP,
    penaltyLastN: options.repeatLastN,
    repeatPenalty: options.repeatPenalty,
    frequencyPenalty: 0,
    presencePenalty: 0,
    seed: options.seed ?? Math.floor(Math.random() * 2 ** 32),
  }
}

/** The most likely token every time: what comparisons use. */
export const GREEDY: SamplerSettings = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  penaltyLastN: 0,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  seed: 0,
}
