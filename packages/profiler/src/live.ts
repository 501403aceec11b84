import { type CategoryGroup, categoryGroups, groupLabels } from './categories.ts'

/** What a running profile shows: means over the last tokens. */
export interface LiveFrame {
  /** Columns of the terminal. */
  readonly width: number
  readonly color: boolean
  readonly elapsedMs: number
  readonly tokens: number
  readonly sequences: number
  readonly tokensPerSecond: number
  /** Null before the second token. */
  readonly tpotMs: number | null
  /** Per cent of the tokens' time; null at level 0. */
  readonly unattributedPct: number | null
  /** ns a token at each place, by group; a place may be a link. */
  readonly places: readonly {
    readonly name: string
    readonly ns: Readonly<Partial<Record<CategoryGroup, number>>>
  }[]
  /** Anything the reader must know, such as a loss of spans. */
  readonly notice?: string
}

/** ANSI 256 colours near those of the report, and a letter for terminals without colours. */
const marks: Readonly<Record<CategoryGroup, { readonly ansi: number; readonly letter: string }>> = {
  compute: { ansi: 32, letter: '#' },
  convert: { ansi: 36, letter: 'c' },
  frame: { ansi: 175, letter: 'f' },
  send: { ansi: 214, letter: 's' },
  wire: { ansi: 166, letter: '~' },
  relay: { ansi: 142, letter: 'r' },
  wait: { ansi: 117, letter: '.' },
  runtime: { ansi: 98, letter: 'o' },
  unattributed: { ansi: 245, letter: '?' },
}

const minWidth = 32

/**
 * The live view as lines without line ends, each at most `width` columns (at least 32): a head, one bar for each place on a
 * common scale, a legend. A function of its argument only. Control characters in names are shown as `?`.
 */
export function renderLive(frame: LiveFrame): string[] {
  const width = Math.max(minWidth, Math.floor(frame.width))
  const places = frame.places.map((place) => ({
    name: plain(place.name),
    ns: place.ns,
    sum: total(place.ns),
  }))
  const topNs = places.reduce((top, place) => Math.max(top, place.sum), 0)
  const nameWidth = Math.min(
    Math.max(8, Math.floor(width / 4)),
    places.reduce((longest, place) => Math.max(longest, place.name.length), 0),
  )
  const barWidth = width - nameWidth - 11
  const present = categoryGroups.filter((group) => places.some((place) => (place.ns[group] ?? 0) > 0))

  const head = [
    `${(frame.elapsedMs / 1000).toFixed(1)} s`,
    `${frame.tokens} tokens`,
    `K=${frame.sequences}`,
    `${digits(frame.tokensPerSecond)} tokens/s`,
    frame.tpotMs === null ? 'TPOT -' : `TPOT ${digits(frame.tpotMs)} ms`,
    frame.unattributedPct === null ? 'no spans' : `unattributed ${digits(frame.unattributedPct)} %`,
  ]
  return [
    ...wrapped(head, '  ', width),
    ...(frame.notice === undefined ? [] : wrapped(plain(frame.notice).split(' '), ' ', width)),
    ...places.map(
      (place) =>
        `${fitted(place.name, nameWidth)} ${bar(place.ns, place.sum, topNs, barWidth, frame.color)} ${time(place.sum)}`,
    ),
    ...(present.length === 0
      ? ['No token yet.']
      : wrappedLegend(
          present.map((group) => ({
            group,
            text: `${groupLabels[group]} ${digits((100 * places.reduce((sum, place) => sum + (place.ns[group] ?? 0), 0)) / places.reduce((sum, place) => sum + place.sum, 0))} %`,
          })),
          width,
          frame.color,
        )),
  ]
}

function bar(
  ns: LiveFrame['places'][number]['ns'],
  sumNs: number,
  topNs: number,
  width: number,
  color: boolean,
): string {
  const full = topNs === 0 ? 0 : Math.max(sumNs > 0 ? 1 : 0, Math.round((sumNs / topNs) * width))
  let cells = 0
  let beforeNs = 0
  let text = ''
  // Ends are rounded, not lengths: the bar is as long as its sum however many parts it has.
  for (const group of categoryGroups) {
    beforeNs += ns[group] ?? 0
    const end = sumNs === 0 ? 0 : Math.round((beforeNs / sumNs) * full)
    if (end > cells) text += painted(group, end - cells, color)
    cells = Math.max(cells, end)
  }
  return text + ' '.repeat(Math.max(0, width - cells))
}

function painted(group: CategoryGroup, cells: number, color: boolean): string {
  return color
    ? `\u001b[38;5;${marks[group].ansi}m${'█'.repeat(cells)}\u001b[0m`
    : marks[group].letter.repeat(cells)
}

function wrappedLegend(
  items: readonly { readonly group: CategoryGroup; readonly text: string }[],
  width: number,
  color: boolean,
): string[] {
  const lines: { columns: number; text: string }[] = []
  for (const { group, text } of items) {
    const own = `${painted(group, 1, color)} ${text.slice(0, width - 2)}`
    const columns = Math.min(width, text.length + 2)
    const last = lines.at(-1)
    if (last !== undefined && last.columns + 2 + columns <= width) {
      last.text += `  ${own}`
      last.columns += 2 + columns
    } else lines.push({ columns, text: own })
  }
  return lines.map((line) => line.text)
}

function wrapped(words: readonly string[], gap: string, width: number): string[] {
  const lines: string[] = []
  for (const word of words.map((text) => text.slice(0, width))) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + gap.length + word.length <= width)
      lines[lines.length - 1] = last + gap + word
    else lines.push(word)
  }
  return lines
}

function time(ns: number): string {
  const [value, unit] = ns >= 1e9 ? [ns / 1e9, 's'] : ns >= 1e6 ? [ns / 1e6, 'ms'] : [ns / 1e3, 'us']
  return `${digits(value)} ${unit}`.padStart(9)
}

/** Three significant digits. */
function digits(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const size = Math.abs(value)
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2)
}

function total(ns: LiveFrame['places'][number]['ns']): number {
  return categoryGroups.reduce((sum, group) => sum + (ns[group] ?? 0), 0)
}

function fitted(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}~`
}

function plain(text: string): string {
  return text.replace(/\p{Cc}/gu, '?')
}
