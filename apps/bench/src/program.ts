import { readFileSync } from 'node:fs'
import { SeamError } from '@seamline/core'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { type Place, places } from 'seamline/profile'
import { createCatalogue } from './catalogue.ts'
import { interruptible, wholeNumber } from './command.ts'
import { aaCommand } from './commands/aa.ts'
import { compareCommand } from './commands/compare.ts'
import { e2eCommand } from './commands/e2e.ts'
import { evidenceCommand } from './commands/evidence.ts'
import { type InjectOptions, inject } from './commands/inject.ts'
import { type LevelsOptions, levels } from './commands/levels.ts'
import { lockCommand } from './commands/lock.ts'
import { profileCommand } from './commands/profile.ts'
import { recordCommand } from './commands/record.ts'
import { type RunOptions, run } from './commands/run.ts'
import { selectCommand } from './commands/select.ts'
import { verifyCommand } from './commands/verify.ts'
import { EXIT_CODE_HELP, ExitCode } from './exit-codes.ts'
import { createPeers } from './peers.ts'
import { createUi, reportError } from './ui.ts'

/** Parses and runs; reports errors and sets the exit status of the process. Never throws. */
export async function main(argv: readonly string[]): Promise<void> {
  process.stdout.on('error', () => process.exit(ExitCode.INTERRUPTED)) // `| head` has seen enough
  const program = createProgram()
  try {
    await program.parseAsync(argv[0] === '--' ? argv.slice(1) : [...argv], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return // help
    const reported =
      error instanceof CommanderError
        ? new SeamError('USAGE', `${error.message.replace(/^error: /, '').replace(/\.$/, '')}; see --help`)
        : error
    process.exitCode = reportError(reported, argv.includes('--json'))
  }
}

function createProgram(): Command {
  const program = new Command('bench')
    .description('Times codecs, framings and transports, each against controls in the same run.')
    .version(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .showSuggestionAfterError(false)
    .enablePositionalOptions()
  const run = runCommand()
  program.addCommand(run, { isDefault: true })
  program.addCommand(profileCommand())
  program.addCommand(injectCommand())
  program.addCommand(levelsCommand())
  program.addCommand(e2eCommand())
  program.addCommand(compareCommand())
  program.addCommand(aaCommand())
  program.addCommand(lockCommand())
  program.addCommand(selectCommand())
  program.addCommand(evidenceCommand())
  program.addCommand(verifyCommand())
  program.addCommand(recordCommand(), { hidden: true })
  program.addHelpText(
    'after',
    () =>
      `\nWithout a command, and so for pnpm bench --filter relay:\n\n${run.helpInformation()}${EXIT_CODE_HELP}`,
  )
  for (const each of program.commands) each.exitOverride().configureOutput({ writeErr: () => {} })
  return program
}

function runCommand(): Command {
  return new Command('run')
    .description('Time the cases whose ids match, with the controls they are compared with.')
    .option(
      '--filter <text>',
      'an exact id, a text within ids such as codec or relay, or a regular expression',
    )
    .option('--list', 'print the ids that would run and run nothing')
    .option('--smoke', 'run every case once, check its work, and time nothing')
    .option('--time <ms>', 'time for each case', wholeNumber(10, 600_000), 500)
    .option('--json', 'print JSON lines: the environment, each case, each ratio')
    .allowExcessArguments(false)
    .addHelpText('after', EXIT_CODE_HELP)
    .action(async (options: RunOptions & { readonly json?: boolean }) => {
      const ui = createUi(options.json === true)
      process.exitCode = await interruptible(ui, async (signal) => {
        const peers = createPeers()
        try {
          return await run(await createCatalogue(peers), options, { ui, signal })
        } finally {
          await peers.dispose()
        }
      })
    })
}

function injectCommand(): Command {
  return new Command('inject')
    .description('Put a delay into one place after the other and see where the profiler finds it.')
    .option('--model <file>', 'a GGUF file, in two stages; with --paced stages that wait')
    .option('--paced <ms>', 'milliseconds a stage, for example 4,6', (text) => text.split(',').map(Number))
    .option('--place <names>', `one or several of ${places.join(', ')} (default: all)`, (text) =>
      text.split(',').map(placeNamed),
    )
    .option('--delay <ms>', 'how long', wholeNumber(1, 1000), 5)
    .option('--runs <n>', 'undisturbed runs to compare with', wholeNumber(2, 50), 5)
    .option(
      '--k <n>',
      'sequences in flight; above 1 what is predicted is compared (--paced)',
      wholeNumber(1, 64),
      1,
    )
    .option('--tokens <n>', 'new tokens of each run', wholeNumber(8, 4096), 48)
    .option('--json', 'print JSON lines')
    .allowExcessArguments(false)
    .addHelpText('after', EXIT_CODE_HELP)
    .action(async (options: InjectOptions & { readonly json?: boolean }) => {
      const ui = createUi(options.json === true)
      process.exitCode = await interruptible(ui, (signal) => inject(options, { ui, signal }))
    })
}

function levelsCommand(): Command {
  return new Command('levels')
    .description('What recording spans costs: runs with and without, in pairs of fresh processes.')
    .requiredOption('--model <file>', 'a GGUF file')
    .option('--stages <n>', 'stages', wholeNumber(1, 64), 2)
    .option('--pairs <n>', 'pairs of runs', wholeNumber(6, 200), 32)
    .option('--tokens <n>', 'new tokens of each run', wholeNumber(8, 4096), 64)
    .option('--json', 'print JSON lines')
    .allowExcessArguments(false)
    .addHelpText('after', EXIT_CODE_HELP)
    .action(async (options: LevelsOptions & { readonly json?: boolean }) => {
      const ui = createUi(options.json === true)
      process.exitCode = await interruptible(ui, (signal) => levels(options, { ui, signal }))
    })
}

function placeNamed(text: string): Place {
  const found = places.find((place) => place === text.trim())
  if (found === undefined) throw new InvalidArgumentError(`Places are ${places.join(', ')}.`)
  return found
}
