import { dirname, resolve } from 'node:path'
import { SeamError } from '@seamline/core'
import type { Command } from 'commander'
import { command } from '../command.ts'
import { verifyBundle } from '../evidence/verify.ts'
import { writeBundle } from '../evidence/write.ts'
import type { ExitCode } from '../exit-codes.ts'
import { reportVerified } from './verify.ts'

interface EvidenceOptions {
  readonly spec: string
  readonly rerun?: boolean
}

export function evidenceCommand(): Command {
  return command<EvidenceOptions>(
    'evidence',
    'Write an evidence bundle into the folder of its spec.json, and verify it.',
    async (context, { spec, rerun }): Promise<ExitCode> => {
      const dir = dirname(resolve(spec))
      if (!spec.endsWith('spec.json'))
        throw new SeamError('USAGE', `--spec names a file spec.json, not ${spec}`)
      await writeBundle(context, dir, { rerun: rerun === true })
      return reportVerified(context, dirname(spec), await verifyBundle(dir))
    },
  )
    .requiredOption(
      '--spec <file>',
      'evidence/<name>/spec.json; README.tmpl.md and LIMITATIONS.md lie beside it',
    )
    .option('--rerun', 'run commands again whose outputs the bundle holds')
}
