import { Command } from 'commander'
import { certifyCommand } from './commands/certify.ts'
import { demoCommand } from './commands/demo.ts'
import { doctorCommand } from './commands/doctor.ts'
import { runCommand } from './commands/run.ts'
import { splitCommand } from './commands/split.ts'
import { synthCommand } from './commands/synth.ts'
import { workerCommand } from './commands/worker.ts'
import { EXIT_CODE_HELP } from './exit-codes.ts'

/** The command line; {@link runProgram} parses and runs it. */
export function createProgram(): Command {
  const program = new Command('seamline')
    .description('Runs one GGUF model as a chain of worker processes on stock llama.cpp.')
    .addHelpText('after', EXIT_CODE_HELP)
  for (const make of [
    demoCommand,
    doctorCommand,
    synthCommand,
    splitCommand,
    certifyCommand,
    workerCommand,
    runCommand,
  ])
    program.addCommand(make())
  return program
}
