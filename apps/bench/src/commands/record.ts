import type { Command } from 'commander'
import { command } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { parseCell } from '../session/cell.ts'
import { recordCell } from '../session/record-cell.ts'

/** What a session runs in a process of its own for every run. */
export function recordCommand(): Command {
  return command<{ readonly cell: string; readonly out: string }>(
    'record',
    'Run one cell once and write what was recorded.',
    async (context, { cell, out }) => {
      const record = await recordCell(context, parseCell(JSON.parse(cell), 'cell'), out)
      if (record.reason !== null) context.ui.note(record.reason)
      return record.status === 'done' ? ExitCode.OK : ExitCode.CHECK_FAILED
    },
  )
    .requiredOption('--cell <json>', 'the cell')
    .requiredOption('--out <dir>', 'a folder that does not exist yet')
}
