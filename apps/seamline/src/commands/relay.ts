import { join } from 'node:path'
import { spanRing } from '@seamline/profiler'
import { createRelay, defaultLimits } from '@seamline/transports/relay-server'
import { createSecret } from '@seamline/transports/security'
import { Option } from 'commander'
import { visibleAddress } from '../advertise.ts'
import { aborted, asChild } from '../child.ts'
import { type Context, command, integer } from '../command.ts'
import { identityDir, isLoopback, kept, loadSecurity, secretFrom } from '../identity.ts'
import { type Injection, parseInjection } from '../inject.ts'
import { addSecurityOptions } from '../options.ts'

interface RelayCommandOptions {
  readonly listen: string
  readonly metrics?: string
  readonly advertise?: string
  readonly access?: string
  readonly secure?: boolean
  readonly identity?: string
  readonly maxRooms?: number
  readonly maxPeers?: number
  readonly maxQueuedBytes?: number
  readonly idleTimeout?: number
  readonly record?: boolean
  readonly inject?: Injection
  readonly exitWithStdin?: boolean
}

export function relayCommand() {
  const made = command<RelayCommandOptions>(
    'relay',
    'let workers meet that can only dial out; it sees ciphertext',
    run,
  )
    .option('--listen <address>', 'where to listen, as HOST:PORT', '127.0.0.1:7200')
    .option(
      '--advertise <host>',
      'name or address of this machine for others, where it listens on every interface (default: the first one on a network)',
    )
    .option('--metrics <address>', 'serve GET /metrics there, on loopback only (default: not at all)')
    .option(
      '--access <file>',
      'file with the secret that clients must know (default beyond loopback: made on first use beside the identity)',
    )
    .option('--secure', 'TLS also on loopback')
    .option('--max-rooms <n>', `rooms at most (default: ${defaultLimits.maxRooms})`, integer(1))
    .option('--max-peers <n>', `connections at most (default: ${defaultLimits.maxPeers})`, integer(1))
    .option(
      '--max-queued-bytes <n>',
      `bytes that wait for a slow peer at most (default: ${defaultLimits.maxQueuedBytesPerPair})`,
      integer(1024),
    )
    .option(
      '--idle-timeout <ms>',
      `a joined pair that carries nothing for this long is ended (default: ${defaultLimits.maxIdleMs})`,
      integer(100),
    )
    .addOption(new Option('--record', 'record spans, taken out by GET /spans beside the metrics').hideHelp())
    .addOption(
      new Option('--inject <delay>', 'put a delay in, for experiments').argParser(parseInjection).hideHelp(),
    )
    .addOption(new Option('--exit-with-stdin', 'end when standard input ends').hideHelp())
    .addHelpText(
      'after',
      `
Prints one line of JSON when it is ready: its address, to which workers append /ROOM (\`worker --listen relay=ADDRESS/ROOM\`).
Beyond loopback it speaks TLS and asks for the access secret, which its operator gives to those who may use it
(\`worker --relay-access FILE\`). What the peers say to each other it cannot read.`,
    )
  return addSecurityOptions(made)
}

async function run(context: Context, options: RelayCommandOptions): Promise<undefined> {
  if (options.exitWithStdin !== true) return serve(context, options, () => {})
  return asChild(context, 5000, (child, onReady) => serve(child, options, onReady))
}

async function serve(
  { ui, signal }: Context,
  options: RelayCommandOptions,
  onReady: () => void,
): Promise<undefined> {
  const dir = options.identity ?? identityDir()
  const guarded = options.secure === true || !isLoopback(options.listen)
  const tls = guarded ? (await loadSecurity(dir)).identity : undefined
  const accessFile = options.access ?? (guarded ? join(dir, 'relay-access') : undefined)
  if (accessFile !== undefined && options.access === undefined) await kept(accessFile, createSecret)
  const access = accessFile === undefined ? undefined : await secretFrom(accessFile)
  const relay = await createRelay({
    address: options.listen,
    ...(access === undefined ? {} : { access }),
    ...(tls === undefined ? {} : { tls }),
    ...(options.metrics === undefined ? {} : { metricsAddress: options.metrics }),
    ...(options.record === true
      ? { recorder: spanRing({ capacity: 1 << 17 }), metricsAddress: options.metrics ?? '127.0.0.1:0' }
      : {}),
    ...(options.inject === undefined ? {} : { holdMs: options.inject.delayMs }),
    limits: {
      ...(options.maxRooms === undefined ? {} : { maxRooms: options.maxRooms }),
      ...(options.maxPeers === undefined ? {} : { maxPeers: options.maxPeers }),
      ...(options.maxQueuedBytes === undefined ? {} : { maxQueuedBytesPerPair: options.maxQueuedBytes }),
      ...(options.idleTimeout === undefined ? {} : { maxIdleMs: options.idleTimeout }),
    },
  })
  const { metricsAddress } = relay
  const address = visibleAddress(relay.address, options.advertise)
  ui.clear()
  onReady()
  if (accessFile !== undefined && options.exitWithStdin !== true) ui.note(`access secret: ${accessFile}`)
  process.stdout.write(`${JSON.stringify({ address, metricsAddress, pid: process.pid })}\n`)
  await aborted(signal)
  await relay.close()
  return undefined
}
