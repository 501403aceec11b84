import { join } from 'node:path'
import { modelDir } from 'seamline/profile'
import type { Context } from '../command.ts'

/** The file of a model that `benchmarks/models.json` names. */
export async function resolveModel(_context: Context, name: string): Promise<{ readonly path: string }> {
  if (process.env.SEAMLINE_TEST_MODEL !== undefined && name === 'stories260K')
    return { path: process.env.SEAMLINE_TEST_MODEL }
  return { path: join(modelDir(), `${name}.gguf`) }
}
