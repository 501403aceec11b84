import { isSeamError, SeamError } from '@seamline/core'
import Table from 'cli-table3'
import pc from 'picocolors'

/** Colours for a stream: on a terminal only, whatever the environment says about continuous integration. */
const coloursFor = (stream: NodeJS.WriteStream) =>
  pc.createColors(stream.isTTY === true && !process.env.NO_COLOR)

/** For text on standard output. */
export const colours = coloursFor(process.stdout)
const errorColours = coloursFor(process.stderr)

/** Everything a command says, so that `--json` leaves one document on standard output and nothing else. */
export interface Ui {
  readonly json: boolean
  /** A line for people on standard output; nothing under `--json`. */
  print(text?: string): void
  /** The same without a line end, for text that streams. */
  write(text: string): void
  /** Ends a line that {@link write} left open. */
  endLine(): void
  /** The one document of a command, printed under `--json` only. */
  result(value: unknown): void
  /** A line on standard error that is no result: statistics, what is going on. Nothing under `--json`. */
  note(text: string): void
  /** A line on standard error, always: what a service reports while it runs. */
  log(text: string): void
  /** A line on standard error, always, marked as a warning. */
  warn(text: string): void
  /** Replaces the status line on a terminal; with `--progress` elsewhere a line a second. */
  progress(text: string): void
  /** Takes the status line away. */
  clear(): void
}

export interface UiOptions {
  readonly json: boolean
  /** Forces progress on or off; undefined shows it on a terminal. */
  readonly progress: boolean | undefined
}

const REDRAW_MS = 100
const LINE_MS = 1000

export function createUi(options: UiOptions): Ui {
  const { json } = options
  const terminal = process.stderr.isTTY === true
  const shows = options.progress ?? terminal
  let drawnAt = 0
  let drawn = false
  let midLine = false

  const clear = () => {
    if (drawn) process.stderr.write('\r\x1b[2K')
    drawn = false
  }
  const toStderr = (text: string) => {
    clear()
    process.stderr.write(`${text}\n`)
  }
  return {
    json,
    print(text = '') {
      if (json) return
      clear()
      process.stdout.write(`${text}\n`)
      midLine = false
    },
    write(text) {
      if (json || text === '') return
      clear()
      process.stdout.write(text)
      midLine = !text.endsWith('\n')
    },
    endLine() {
      if (midLine) process.stdout.write('\n')
      midLine = false
    },
    result(value) {
      clear()
      if (json) process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)
    },
    note(text) {
      if (!json) toStderr(text)
    },
    log: toStderr,
    warn(text) {
      toStderr(`${errorColours.yellow('warning:')} ${text}`)
    },
    progress(text) {
      if (!shows || midLine) return
      const now = Date.now()
      if (now - drawnAt < (terminal ? REDRAW_MS : LINE_MS)) return
      drawnAt = now
      if (!terminal) {
        process.stderr.write(`${text}\n`)
        return
      }
      process.stderr.write(`\r\x1b[2K${text.slice(0, (process.stderr.columns ?? 80) - 1)}`)
      drawn = true
    },
    clear,
  }
}

/** Prints what went wrong: one line for a known error, the stack for a bug. */
export function reportError(error: unknown, json: boolean): void {
  const known = isSeamError(error)
  const { code, message: text, worker } = known ? error : SeamError.from(error, 'EXECUTOR')
  const message = text.replace(/ENOENT: no such file or directory, \w+ '([^']+)'/, '$1 does not exist')
  if (json) {
    const body = { code: known ? code : 'INTERNAL', message, worker: worker ?? null }
    process.stdout.write(`${JSON.stringify({ error: body }, null, 2)}\n`)
    return
  }
  const named = worker === undefined || message.includes(worker) ? message : `${worker}: ${message}`
  if (known) {
    process.stderr.write(`${errorColours.red('seamline:')} ${named} [${code}]\n`)
    return
  }
  const stack = error instanceof Error ? error.stack : String(error)
  process.stderr.write(`${errorColours.red('seamline:')} this is a bug, please report it: ${stack}\n`)
}

/** A table without lines; numbers are right-aligned by the caller's choice of columns. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly number[] = [],
): string {
  const none = Object.fromEntries(
    ['top', 'bottom', 'left', 'right', 'mid'].flatMap((side) =>
      ['', '-mid', '-left', '-right'].map((suffix) => [`${side}${suffix}`, '']),
    ),
  )
  const made = new Table({
    head: head.map((text) => colours.bold(text)),
    chars: { ...none, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    colAligns: head.map((_, column) => (right.includes(column) ? 'right' : 'left')),
  })
  for (const row of rows) made.push([...row])
  // Trailing spaces pad the last column to no use.
  return made.toString().replace(/ +$/gm, '')
}

/** `1.2 GB`, `34 MB`, `5.6 kB`, `789 B`: decimal units. */
export function bytes(count: number): string {
  for (const [unit, size] of [
    ['GB', 1e9],
    ['MB', 1e6],
    ['kB', 1e3],
  ] as const) {
    if (count >= size) return `${(count / size).toFixed(count >= 100 * size ? 0 : 1)} ${unit}`
  }
  return `${count} B`
}

/** Reports bytes done of bytes in all as a status line. */
export function byteProgress(ui: Ui, what: string): (doneBytes: number, totalBytes: number) => void {
  return (done, total) => ui.progress(`${what}: ${percent(done / total)} of ${bytes(total)}`)
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}

export function milliseconds(ns: number): string {
  const ms = ns / 1e6
  return `${ms.toFixed(ms >= 100 ? 0 : ms >= 10 ? 1 : 2)} ms`
}

export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
