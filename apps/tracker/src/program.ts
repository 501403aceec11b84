import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { type HelloMessage, isSeamError, SeamError } from '@seamline/core'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { announceTo } from './announce.ts'
import { trackerClient } from './client.ts'
import * as config from './config.ts'
import { EXIT_CODE_HELP, ExitCode, exitCodeOf } from './exit-codes.ts'
import type { Plan } from './plan.ts'
import type { KnownWorker } from './registry.ts'
import { serveTracker } from './server.ts'
import { createTracker } from './tracker.ts'

interface RemoteOptions {
  readonly tracker: string
  readonly timeout: number
  readonly json?: boolean
}

interface PlanOptions extends RemoteOptions {
  readonly model?: string
  readonly codec?: readonly string[]
  readonly without?: readonly string[]
}

interface ServeCommandOptions {
  readonly listen: string
  readonly expiry: number
  readonly maxWorkers: number
  readonly json?: boolean
}

/** The command line. Actions run until `signal` is aborted. */
export function createProgram(signal: AbortSignal): Command {
  const client = ({ tracker, timeout }: RemoteOptions) =>
    trackerClient(tracker, { timeoutMs: timeout, signal })
  const serve = command('serve', 'keep track of workers, and plan chains of them')
    .option('--listen <address>', 'where to listen, on loopback only', '127.0.0.1:0')
    .option('--expiry <ms>', 'forget a worker that was silent for this long', whole, 15_000)
    .option('--max-workers <n>', 'refuse further ones', whole, 256)
    .addHelpText(
      'after',
      '\nPrints one line of JSON when it is ready. Ends in good order on SIGINT and SIGTERM.',
    )
    .action(async ({ listen, expiry, maxWorkers }: ServeCommandOptions) => {
      const tracker = createTracker({ ...config, expiryMs: expiry, maxWorkers })
      const server = await serveTracker(tracker, { listen })
      process.stdout.write(`${JSON.stringify({ url: server.url, pid: process.pid })}\n`)
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve()
        else signal.addEventListener('abort', () => resolve(), { once: true })
      })
      await server.close()
    })
  const announce = remote(
    command('announce', 'tell a tracker of a worker for as long as its ready line is an open pipe'),
  )
    .addHelpText(
      'after',
      `
Reads the ready line of a worker from standard input, announces what it says and renews that; withdraws it when the input ends or on
a signal: \`seamline worker … | tracker announce --tracker URL\`. Prints the line again, so that it is not lost.`,
    )
    .action(async ({ tracker: url, timeout }: RemoteOptions) => {
      const lines = createInterface(process.stdin)
      try {
        const ended = new Promise<void>((resolve) => {
          lines.once('close', resolve)
          if (signal.aborted) resolve()
          else signal.addEventListener('abort', () => resolve(), { once: true })
        })
        const line = await Promise.race([
          new Promise<string>((resolve) => lines.once('line', resolve)),
          ended.then(() => ''),
        ])
        const onTrouble = (reason: SeamError | undefined) => {
          const text = reason === undefined ? 'announced again' : `${reason.message} [${reason.code}]`
          process.stderr.write(`tracker: ${text}\n`)
        }
        const worker = { announcement: announcementIn(line) }
        const announced = await announceTo(url, worker, { timeoutMs: timeout, onTrouble })
        process.stdout.write(`${line}\n`)
        await ended
        await announced.close()
      } finally {
        lines.close()
        process.stdin.destroy()
      }
    })
  const workers = remote(command('workers', 'list the workers that a tracker knows')).action(
    async (options: RemoteOptions) => {
      const known = await client(options).workers()
      print(options.json, { workers: known }, workerTable(known))
    },
  )
  const plan = remote(command('plan', 'ask a tracker for a chain of workers'))
    .option('--model <sha256>', 'of which model; needed once workers of several are known')
    .option(
      '--codec <name>',
      'allow this codec only, which may be lossy; give it again for several',
      repeated,
    )
    .option('--without <name>', 'do without this worker; give it again for several', repeated)
    .action(async (options: PlanOptions) => {
      const found = await client(options).plan({
        ...(options.model === undefined ? {} : { facts: { modelSha256: options.model } }),
        ...(options.codec === undefined ? {} : { codecs: options.codec }),
        ...(options.without === undefined ? {} : { without: options.without }),
      })
      print(options.json, found, planTable(found))
    })
  return new Command('tracker')
    .description('Keeps track of workers by what they announce, and plans chains of them.')
    .version(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
    .addHelpText('after', EXIT_CODE_HELP)
    .addCommand(serve)
    .addCommand(announce)
    .addCommand(workers)
    .addCommand(plan)
}

/** What the ready line of a worker says of it; the tracker checks every field. */
function announcementIn(line: string): HelloMessage {
  try {
    const { announcement } = JSON.parse(line) as { announcement?: HelloMessage }
    if (typeof announcement === 'object' && announcement !== null) return announcement
  } catch {}
  throw new SeamError(
    'USAGE',
    `standard input has no ready line of a worker${line === '' ? '' : `, but "${line.slice(0, 60)}"`}: pipe \`seamline worker …\` into this`,
  )
}

/** Parses and runs; reports errors and sets the exit status of the process. Never throws. */
export async function runProgram(argv: readonly string[]): Promise<void> {
  const json = argv.includes('--json')
  const controller = new AbortController()
  // Whoever read the output and left wants no more of it.
  process.stdout.on('error', () => controller.abort(new SeamError('ABORTED', 'nobody reads the output')))
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => controller.abort(new SeamError('ABORTED', 'interrupted')))
  }
  const program = createProgram(controller.signal)
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
      program.configureOutput({ writeOut: (text) => process.stderr.write(text) }).outputHelp()
      process.exitCode = ExitCode.USAGE
      return
    }
    report(error instanceof CommanderError ? usageError(error) : error, json)
  }
}

function report(error: unknown, json: boolean): void {
  const known = isSeamError(error)
  process.exitCode = known ? exitCodeOf(error.code) : ExitCode.INTERNAL
  const { code, message, worker } = known ? error : SeamError.from(error, 'WORKER')
  if (json) {
    const body = { code: known ? code : 'INTERNAL', message, worker: worker ?? null }
    process.stdout.write(`${JSON.stringify({ error: body }, null, 2)}\n`)
  } else if (known) process.stderr.write(`tracker: ${message} [${code}]\n`)
  else process.stderr.write(`tracker: this is a bug, please report it: ${(error as Error).stack ?? error}\n`)
}

function usageError(error: CommanderError): SeamError {
  const message =
    error.code === 'commander.help' ? 'a command is missing' : error.message.replace(/^error: /, '')
  return new SeamError('USAGE', `${message.replace(/\.$/, '')}; see --help`)
}

function command(name: string, summary: string): Command {
  return new Command(name)
    .summary(summary)
    .description(summary)
    .option('--json', 'print one JSON document on standard output and nothing else there')
    .addHelpText('after', EXIT_CODE_HELP)
    .allowExcessArguments(false)
}

function remote(made: Command): Command {
  return made
    .requiredOption('--tracker <url>', 'what `tracker serve` printed (required)')
    .option('--timeout <ms>', 'deadline of the request', whole, 5000)
}

function print(json: boolean | undefined, document: unknown, text: string): void {
  process.stdout.write(json === true ? `${JSON.stringify(document, null, 2)}\n` : `${text}\n`)
}

function workerTable(known: readonly KnownWorker[]): string {
  if (known.length === 0)
    return 'no worker has announced itself: pipe `seamline worker …` into `tracker announce`'
  const rows = known.map(({ announcement: { name, facts, codecs, addresses }, expiresInMs }) => [
    ...[name, layers(facts), facts.modelSha256.slice(0, 12) || '-', codecs.join(' ')],
    ...[addresses.map(at).join(' '), `${Math.ceil(expiresInMs / 1000)} s`],
  ])
  return columns([['worker', 'layers', 'model', 'codecs', 'addresses', 'expires in'], ...rows])
}

function planTable({ stages, links, candidates }: Plan): string {
  const chain = stages.map(({ name, addresses, framing, ...range }) => [
    ...[name, layers(range), framing, addresses.map(at).join(' ')],
  ])
  const seams = links.map(({ from, to, carries, codec, framing, addresses }) => [
    ...[`${from} > ${to}`, carries, codec || '-', framing, addresses.map(at).join(' ')],
  ])
  const rest = candidates.filter(({ use }) => use !== 'chosen')
  const tables = [
    columns([['stage', 'layers', 'framing', 'addresses, first to last'], ...chain]),
    ...(seams.length === 0
      ? []
      : [columns([['link', 'carries', 'codec', 'framing', 'addresses, first to last'], ...seams])]),
    ...(rest.length === 0
      ? []
      : [
          columns([['not used', 'layers', 'why'], ...rest.map((one) => [one.name, layers(one), one.reason])]),
        ]),
  ]
  return tables.join('\n\n')
}

const at = ({ transport, address }: { readonly transport: string; readonly address: string }) =>
  `${transport}=${address}`
const layers = ({ layerFirst, layerEnd }: { readonly layerFirst: number; readonly layerEnd: number }) =>
  `${layerFirst}-${layerEnd}`

function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows
    .map((row) =>
      row
        .map((text, i) => text.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function repeated(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text]
}

function whole(text: string): number {
  if (/^\d{1,9}$/.test(text) && Number(text) > 0) return Number(text)
  throw new InvalidArgumentError('A whole number above 0 is needed.')
}
