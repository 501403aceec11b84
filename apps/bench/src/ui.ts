import { isSeamError } from '@seamline/core'
import Table from 'cli-table3'
import pc from 'picocolors'
import { ExitCode, exitCodeOf } from './exit-codes.ts'

const coloursFor = (stream: NodeJS.WriteStream) =>
  pc.createColors(stream.isTTY === true && !process.env.NO_COLOR)
export const colours = coloursFor(process.stdout)

/** Everything a command says. Under `--json` standard output holds JSON lines and nothing else. */
export interface Ui {
  readonly json: boolean
  /** For people, on standard output; nothing under `--json`. */
  print(text?: string): void
  /** One line of JSON on standard output, under `--json` only. */
  record(value: object): void
  /** A line on standard error. */
  note(text: string): void
  /** Replaces the status line on a terminal. */
  progress(text: string): void
}

const redrawMs = 100

export function createUi(json: boolean): Ui {
  const terminal = process.stderr.isTTY === true
  let drawnAt = 0
  let drawn = false
  const clear = () => {
    if (drawn) process.stderr.write('\r\x1b[2K')
    drawn = false
  }
  return {
    json,
    print(text = '') {
      if (json) return
      clear()
      process.stdout.write(`${text}\n`)
    },
    record(value) {
      clear()
      if (json) process.stdout.write(`${JSON.stringify(value)}\n`)
    },
    note(text) {
      clear()
      process.stderr.write(`${text}\n`)
    },
    progress(text) {
      if (!terminal || Date.now() - drawnAt < redrawMs) return
      drawnAt = Date.now()
      process.stderr.write(`\r\x1b[2K${text.slice(0, (process.stderr.columns ?? 80) - 1)}`)
      drawn = true
    },
  }
}

/** Says what went wrong and returns the exit status for it. */
export function reportError(error: unknown, json: boolean): ExitCode {
  const known = isSeamError(error)
  const message = error instanceof Error ? error.message : String(error)
  const code = known ? error.code : 'INTERNAL'
  if (json) process.stdout.write(`${JSON.stringify({ type: 'error', code, message })}\n`)
  else if (known) process.stderr.write(`bench: ${message} [${code}]\n`)
  else {
    const stack = error instanceof Error ? error.stack : message
    process.stderr.write(`bench: this is a bug, please report it: ${stack}\n`)
  }
  return known ? exitCodeOf(error.code) : ExitCode.INTERNAL
}

/** A table without lines; `right` are the columns of numbers. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly number[],
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
  return made.toString().replace(/ +$/gm, '')
}
