import { Socket } from 'node:net'
import { SeamError } from '@seamline/core'
import type { Context } from './command.ts'

/** What a process that serves prints while it starts, as often as {@link STARTING_BEATS} in a liveness deadline. */
export const STARTING_LINE = '{"starting":true}'
export const STARTING_BEATS = 5

/** How long a process without a parent may take to end. */
const ORPHAN_MS = 3000

/**
 * Runs `serve` as the child of another Seamline process: says that it lives until `serve` calls `onReady`, and ends when its
 * standard input does, whose other end the parent holds and the kernel closes whatever kills the parent.
 */
export async function asChild<T>(
  context: Context,
  livenessMs: number,
  serve: (context: Context, onReady: () => void) => Promise<T>,
): Promise<T> {
  const beat = () => process.stdout.write(`${STARTING_LINE}\n`)
  beat()
  const beats = setInterval(beat, livenessMs / STARTING_BEATS)
  try {
    return await serve({ ...context, signal: withEndOfStdin(context.signal) }, () => clearInterval(beats))
  } finally {
    clearInterval(beats)
  }
}

function withEndOfStdin(signal: AbortSignal): AbortSignal {
  const controller = new AbortController()
  const { stdin } = process
  if (stdin instanceof Socket) stdin.unref() // it must not keep alive a process that has failed
  stdin.resume().once('close', () => {
    controller.abort(new SeamError('ABORTED', 'the parent process is gone'))
    setTimeout(() => process.exit(), ORPHAN_MS).unref()
  })
  return AbortSignal.any([signal, controller.signal])
}

/** Settles when the command is interrupted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
