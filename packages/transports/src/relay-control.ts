import type { Duplex } from 'node:stream'
import { SeamError } from '@seamline/core'

/** Lines of text in both directions over one stream, with beats that show that both ends are alive. */
export interface Control {
  /** `line` has no newline. Does nothing once the control connection has ended. */
  send(line: string): void
  /** Ends this side in good order; `onLost` follows. */
  end(): void
  /** Ends both sides now; `onLost` follows. */
  destroy(error: SeamError): void
}

export interface ControlOptions {
  /** Name of the other end in errors. */
  readonly remote: string
  /** Silence after which the other end counts as lost; a beat is sent three times as often. */
  readonly keepAliveMs: number
  onLine(line: string): void
  /** Exactly once and last; `undefined` when both ends closed in good order. */
  onLost(error: SeamError | undefined): void
}

const maxLineBytes = 1024
const beat = 'beat'

/** Takes over `stream`. */
export function createControl(stream: Duplex, options: ControlOptions): Control {
  const { remote, keepAliveMs, onLine, onLost } = options
  let heardMs = performance.now()
  let rest = ''
  let lost: SeamError | undefined
  let over = false

  const timer = setInterval(
    () => {
      control.send(beat)
      if (performance.now() - heardMs <= keepAliveMs) return
      // Timers run before sockets are read: what came while this process was busy has not been looked at yet.
      setImmediate(() => {
        if (over || performance.now() - heardMs <= keepAliveMs) return
        control.destroy(new SeamError('TIMEOUT', `${remote} was silent for over ${keepAliveMs} ms`))
      })
    },
    Math.max(1, keepAliveMs / 3),
  )

  stream.on('data', (chunk: Buffer) => {
    heardMs = performance.now()
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > maxLineBytes) {
      control.destroy(new SeamError('PROTOCOL', `${remote} sent a line of over ${maxLineBytes} B`))
      return
    }
    for (const line of lines) if (line !== beat && !over) onLine(line)
  })
  stream.on('end', () => stream.end())
  stream.on('error', (error: Error) => {
    lost ??= new SeamError('RESET', `${remote} ended without warning (${error.message})`, { cause: error })
  })
  stream.on('close', () => {
    over = true
    clearInterval(timer)
    onLost(lost)
  })

  const control: Control = {
    send(line) {
      if (stream.writable) stream.write(`${line}\n`, 'latin1')
    },
    end: () => void stream.end(),
    destroy(error) {
      lost ??= error
      stream.destroy()
    },
  }
  stream.resume()
  return control
}
