/**
 * What reports are made of: markup that escapes, formats of numbers, and the frame of a page that opens from disk and requests nothing.
 *
 * @packageDocumentation
 */

export { fill, legend } from './charts.ts'
export {
  commandLine,
  numbersOf,
  type PageParts,
  pageHtml,
  type Section,
  type ShowNumber,
  table,
} from './document.ts'
export { formatBytes, formatCount, formatNs, formatPct, formatUnit } from './format.ts'
export { type Html, html, trusted } from './html.ts'
