import { isSeamError, SeamError } from '@seamline/core'
import { Command, InvalidArgumentError } from 'commander'
import { EXIT_CODE_HELP, ExitCode } from './exit-codes.ts'
import { createUi, type Ui } from './ui.ts'

export interface Context {
  readonly ui: Ui
  /** Aborted by Ctrl-C, SIGTERM and SIGHUP. */
  readonly signal: AbortSignal
}

const interrupts = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** How long an interrupted run may take to tidy up before the process ends all the same. */
const tidyMs = 10_000

/** A subcommand with what every one has: `--json`, exit codes in its help, and an end by Ctrl-C that tidies up. */
export function command<Options, Arguments extends readonly string[] = readonly []>(
  name: string,
  description: string,
  work: (context: Context, options: Options, ...args: Arguments) => Promise<ExitCode>,
): Command {
  return new Command(name)
    .description(description)
    .option('--json', 'print JSON lines')
    .allowExcessArguments(false)
    .addHelpText('after', EXIT_CODE_HELP)
    .action(async (...given: unknown[]) => {
      // Commander hands over the arguments, then the options, then the command.
      const options = given.at(-2) as Options & { readonly json?: boolean }
      const ui = createUi(options.json === true)
      const args = given.slice(0, -2) as unknown as Arguments
      process.exitCode = await interruptible(ui, (signal) => work({ ui, signal }, options, ...args))
    })
}

export async function interruptible<T>(ui: Ui, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const interrupt = () => {
    controller.abort(new SeamError('ABORTED', 'interrupted'))
    setTimeout(() => {
      ui.note(`tidying up took more than ${tidyMs / 1000} s; leaving without it`)
      process.exit(ExitCode.INTERRUPTED)
    }, tidyMs).unref()
  }
  for (const signal of interrupts) process.on(signal, interrupt)
  try {
    return await work(controller.signal)
  } catch (error) {
    throw controller.signal.aborted && !isSeamError(error) ? controller.signal.reason : error
  } finally {
    for (const signal of interrupts) process.off(signal, interrupt)
  }
}

export function wholeNumber(minimum: number, maximum: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isInteger(value) || value < minimum || value > maximum)
      throw new InvalidArgumentError(`A whole number from ${minimum} to ${maximum} is needed.`)
    return value
  }
}
