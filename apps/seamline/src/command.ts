import { setMaxListeners } from 'node:events'
import { isSeamError, SeamError } from '@seamline/core'
import { Command, CommanderError, Help, InvalidArgumentError, Option } from 'commander'
import { EXIT_CODE_HELP, ExitCode, exitCodeOf } from './exit-codes.ts'
import { createUi, reportError, type Ui } from './ui.ts'

export interface Context {
  readonly ui: Ui
  /** Aborted by Ctrl-C, SIGTERM and SIGHUP. */
  readonly signal: AbortSignal
}

/** Does the work of a command; the number is its exit status. */
export type Action<Options> = (context: Context, options: Options) => Promise<ExitCode | undefined>

interface CommonOptions {
  readonly json?: boolean
  readonly progress?: boolean
}

/** How long an interrupted command may take to tidy up before the process ends all the same. */
const TIDY_MS = 10_000
/** One Ctrl-C may come as several signals: a terminal's SIGINT is followed by a SIGTERM of the pnpm around this process. */
const SAME_INTERRUPT_MS = 500
const INTERRUPTS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** A subcommand with what every one has: `--json`, `--progress`, exit codes in its help. */
export function command<Options>(name: string, summary: string, run: Action<Options>): Command {
  return new Command(name)
    .summary(summary)
    .description(summary)
    .configureHelp({ optionDescription })
    .option('--json', 'print one JSON document on standard output and nothing else there')
    .addOption(new Option('--progress', 'report progress also where standard error is no terminal'))
    .addOption(new Option('--no-progress', 'report no progress'))
    .addHelpText('after', EXIT_CODE_HELP)
    .allowExcessArguments(false)
    .action(async (options: Options & CommonOptions) => {
      const ui = createUi({ json: options.json === true, progress: options.progress })
      const controller = new AbortController()
      setMaxListeners(0, controller.signal) // one for each sequence, worker and link is no leak
      let interruptedMs = 0
      const interrupt = () => {
        const nowMs = performance.now()
        if (controller.signal.aborted) {
          if (nowMs - interruptedMs < SAME_INTERRUPT_MS) return
          process.exit(ExitCode.INTERRUPTED)
        }
        interruptedMs = nowMs
        controller.abort(new SeamError('ABORTED', 'interrupted'))
        setTimeout(() => giveUp(ui), TIDY_MS).unref()
      }
      for (const signal of INTERRUPTS) process.on(signal, interrupt)
      let failed: OutputFault | undefined
      hearOutputFault = (fault) => {
        failed ??= fault
        if (fault.readerIsGone) return interrupt()
        controller.abort(fault.error)
      }
      try {
        const code = await run({ ui, signal: controller.signal }, options)
        if (failed === undefined) process.exitCode = code ?? ExitCode.OK
      } catch (error) {
        // What an interruption breaks on its way is no news.
        if (failed === undefined) throw controller.signal.aborted ? controller.signal.reason : error
      } finally {
        ui.clear()
        for (const signal of INTERRUPTS) process.off(signal, interrupt)
        hearOutputFault = endWith
      }
      if (failed !== undefined) endWith(failed, ExitCode.INTERRUPTED)
    })
}

function optionDescription(option: Option): string {
  const text = new Help().optionDescription(option)
  return option.mandatory ? `${text} (required)` : text
}

/** A write to standard output or standard error that failed. */
interface OutputFault {
  /** The other end of a pipe went away, as `head` does. */
  readonly readerIsGone: boolean
  readonly error: SeamError
}

/** Who is told: the command that runs, else the process as a whole. */
let hearOutputFault: (fault: OutputFault) => void = endWith

/** With nobody left to talk to a process ends quietly: in the middle of its work as interrupted, else as it would have. */
function endWith({ readerIsGone, error }: OutputFault, whenGone?: ExitCode): void {
  if (readerIsGone) {
    if (whenGone !== undefined) process.exitCode = whenGone
    return
  }
  process.exitCode = exitCodeOf(error.code)
  reportError(error, false)
}

/** For the whole life of the process: errors of its outputs come after the writes, also after the last one. */
function watchOutputs(): void {
  const outputs = { 'standard output': process.stdout, 'standard error': process.stderr }
  for (const [name, stream] of Object.entries(outputs)) {
    let hasFailed = false
    stream.on('error', (cause: NodeJS.ErrnoException) => {
      if (hasFailed) return // every write after the first one fails too
      hasFailed = true
      const readerIsGone = cause.code === 'EPIPE'
      const error = new SeamError('FILE', `cannot write to ${name}: ${cause.message}`, { cause })
      hearOutputFault({ readerIsGone, error })
    })
  }
}

function giveUp(ui: Ui): never {
  ui.warn(`tidying up took more than ${TIDY_MS / 1000} s; leaving without it`)
  process.exit(ExitCode.INTERRUPTED)
}

/** Parses and runs; reports errors and sets the exit status of the process. Never throws. */
export async function runProgram(program: Command, argv: readonly string[]): Promise<void> {
  watchOutputs()
  const json = argv.includes('--json')
  for (const each of [program, ...program.commands]) {
    each
      .exitOverride()
      .configureOutput({ writeErr: () => {} })
      .showSuggestionAfterError(false)
  }
  try {
    await program.parseAsync([...argv], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return // help or version
    if (error instanceof CommanderError && error.code === 'commander.help' && !json) {
      // No command: the help is the answer, and no result.
      program.configureOutput({ writeOut: (text) => process.stderr.write(text) }).outputHelp()
      process.exitCode = ExitCode.USAGE
      return
    }
    const reported = error instanceof CommanderError ? usageError(error) : error
    reportError(reported, json)
    process.exitCode = isSeamError(reported) ? exitCodeOf(reported.code) : ExitCode.INTERNAL
  }
}

function usageError(error: CommanderError): SeamError {
  const message =
    error.code === 'commander.help' ? 'a command is missing' : error.message.replace(/^error: /, '')
  return new SeamError('USAGE', `${message.replace(/\.$/, '')}; see --help`)
}

/** An option parser for whole numbers. */
export function integer(
  minimum: number,
  maximum: number = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < minimum || value > maximum) {
      throw new InvalidArgumentError(`A whole number from ${minimum} to ${maximum} is needed.`)
    }
    return value
  }
}

/** An option parser for numbers with a fraction. */
export function number(minimum: number, maximum: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() === '' || !(value >= minimum && value <= maximum)) {
      throw new InvalidArgumentError(`A number from ${minimum} to ${maximum} is needed.`)
    }
    return value
  }
}
