import { resolve, sep } from 'node:path'
import type { Ui } from './ui.ts'

/** Where models are split to and synthetic ones are kept: `SEAMLINE_MODEL_DIR`. */
export function modelDir(): string {
  return resolve(process.env.SEAMLINE_MODEL_DIR || '/var/tmp/seamline')
}

/** Home folders are often on a network: loading from there is slow and distorts every timing. */
export function warnOfHome(ui: Ui, file: string): void {
  const path = resolve(file)
  if (path.startsWith(`${sep}home${sep}`)) {
    ui.warn(`${path} lies under /home, which is often a network disk; ${modelDir()} is a better place`)
  }
}
