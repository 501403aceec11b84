import { fileURLToPath } from 'node:url'

/** The checkout that this code runs from. */
export const rootDir = fileURLToPath(new URL('../../../', import.meta.url))
