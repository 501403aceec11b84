import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { certifyCommand } from './commands/certify.ts'
import { certifyAllCommand } from './commands/certify-all.ts'
import { certifySeamsCommand } from './commands/certify-seams.ts'
import { demoCommand } from './commands/demo.ts'
import { doctorCommand } from './commands/doctor.ts'
import { overheadCommand } from './commands/overhead.ts'
import { profileCommand } from './commands/profile.ts'
import { relayCommand } from './commands/relay.ts'
import { runCommand } from './commands/run.ts'
import { splitCommand } from './commands/split.ts'
import { synthCommand } from './commands/synth.ts'
import { workerCommand } from './commands/worker.ts'
import { EXIT_CODE_HELP } from './exit-codes.ts'

/** The command line; {@link runProgram} parses and runs it. */
export function createProgram(): Command {
  return new Command('seamline')
    .description('Runs one GGUF model as a chain of worker processes on stock llama.cpp.')
    .version(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
    .addHelpText('after', EXIT_CODE_HELP)
    .addCommand(demoCommand())
    .addCommand(doctorCommand())
    .addCommand(splitCommand())
    .addCommand(workerCommand())
    .addCommand(relayCommand())
    .addCommand(runCommand())
    .addCommand(profileCommand())
    .addCommand(certifyCommand())
    .addCommand(certifyAllCommand())
    .addCommand(certifySeamsCommand())
    .addCommand(overheadCommand())
    .addCommand(synthCommand())
}
