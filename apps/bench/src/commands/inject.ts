import { SeamError, SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import type { Attribution, RunTrace } from '@seamline/profiler'
import {
  analyse,
  type ChainOptions,
  chainOf,
  createUi,
  type Place,
  places,
  promptsOf,
  recordRun,
} from 'seamline/profile'
import { ExitCode } from '../exit-codes.ts'
import { colours, type Ui } from '../ui.ts'
import { type Delayed, injectionPlaceOf, slopesOf, type Undisturbed, undisturbed } from './inject-slopes.ts'

export interface InjectOptions {
  readonly model?: string
  readonly paced?: readonly number[]
  readonly place?: readonly Place[]
  readonly delay: number
  readonly runs: number
  readonly tokens: number
  /** Sequences in flight: with more than one, what is compared is what a replay predicts. */
  readonly k: number
}

/** From the end of sampling to the caller, which is not part of a token's interval. */
const DELIVERY = 'delivery'

/** Where a delay must show up: categories of the token view, or the way from the last stage to the caller. */
const EXPECTED: Readonly<Record<Place, readonly string[]>> = {
  codec: ['convert.encode'],
  framing: ['frame.encode'],
  'sender-queue': ['send.queue'],
  wire: ['wire.first', 'wire.rest'],
  // The coordinator's links go through the same relay.
  relay: ['relay.in', 'relay.queue', 'relay.out'],
  'stage-queue': ['stage.queue'],
  compute: ['compute.device'],
  emit: [DELIVERY],
  open: ['open'],
  uninstrumented: ['UNATTRIBUTED', 'dispatch'],
}

/** How often a decoded token meets the delay; everywhere else once. */
const TIMES: Partial<Readonly<Record<Place, number>>> = { relay: 2 }

/** Where a delay shows besides, because the same thing is on another way too. */
const ALSO: Partial<Readonly<Record<Place, readonly string[]>>> = { relay: [DELIVERY, 'open'] }

/** The place of a delay must account for it within this share; elsewhere no more than this share of it beyond the spread of undisturbed runs. */
const TOLERANCE = 0.1

/** What a run says of a mean decoded token, in ns by category. */
type PerToken = ReadonlyMap<string, number>

/**
 * Puts a delay into one place after the other and compares where it shows up with what the injector recorded of it, and all other
 * categories with undisturbed runs.
 */
export async function inject(
  options: InjectOptions,
  { ui, signal }: { readonly ui: Ui; readonly signal: AbortSignal },
): Promise<ExitCode> {
  if (options.k > 1) return injectSeveral(options, { ui, signal })
  const chosen = options.place ?? places
  const baselines = new Map<string, PerToken[]>()
  let failed = 0
  const rows: string[] = []
  for (const place of chosen) {
    const transport = place === 'relay' ? 'relay' : 'tcp'
    const quiet = baselines.get(transport) ?? []
    baselines.set(transport, quiet)
    while (quiet.length < options.runs) {
      ui.progress(`undisturbed run ${quiet.length + 1} of ${options.runs} over ${transport}`)
      quiet.push(perToken(await record(options, transport, signal)))
    }
    ui.progress(`a delay of ${options.delay} ms in ${place}`)
    const trace = await record(options, transport, signal, place)
    const found = perToken(trace)
    const injectedNs = injectedPerToken(trace, place)
    const expected = EXPECTED[place]
    const sum = (of: PerToken) => expected.reduce((total, category) => total + (of.get(category) ?? 0), 0)
    const shownNs = sum(found) - median(quiet.map(sum))
    const share = shownNs / injectedNs
    const others = [...found.keys()].filter((category) => !expected.includes(category))
    const strays = others
      .map((category) => ({
        category,
        ...beyond(
          found.get(category) ?? 0,
          quiet.map((run) => run.get(category) ?? 0),
        ),
      }))
      .sort((a, b) => b.beyondNs - a.beyondNs)
    const sums = quiet.map(sum)
    // A run has one occasion of it: how much that varies by itself counts.
    const spreadNs = place === 'open' ? Math.max(...sums) - Math.min(...sums) : 0
    const isFound = Math.abs(shownNs - injectedNs) <= Math.max(TOLERANCE * injectedNs, spreadNs)
    const allowed = ALSO[place] ?? []
    const stray = strays.find(({ category }) => !allowed.includes(category))
    const clean = stray === undefined || stray.beyondNs <= TOLERANCE * injectedNs
    const ok = isFound && clean
    if (!ok) failed += 1
    ui.record({
      ...{
        type: 'injection',
        place,
        transport,
        delayMs: options.delay,
        injectedNs,
        shownNs,
        share,
        ok,
        expected,
      },
      beyondSpread: strays.filter(({ beyondNs }) => beyondNs > 0),
      runs: options.runs,
    })
    rows.push(
      `${place.padEnd(15)} ${us(injectedNs)} ${us(shownNs)} ${share.toFixed(3).padStart(7)}  ${expected.join(' + ').padEnd(36)} ` +
        `${stray === undefined || stray.beyondNs <= 0 ? 'within the spread' : `${stray.category} ${us(stray.beyondNs).trim()} beyond its spread`}` +
        `${isFound ? '' : colours.red('  NOT WITHIN 10 %')}${clean ? '' : colours.red('  ELSEWHERE TOO')}`,
    )
  }
  ui.print(`place             injected      shown   share  in                                   elsewhere`)
  for (const row of rows) ui.print(row)
  ui.print(
    `Means per decoded token, of open per first one; shown is what ${options.runs} undisturbed runs (their median) do not have.`,
  )
  return failed === 0 ? ExitCode.OK : ExitCode.CHECK_FAILED
}

/**
 * With several sequences in flight a delay is in part waited out beside others, so that it need not show up where it is: what a replay of
 * undisturbed runs predicts for it is set against what it did.
 */
async function injectSeveral(
  options: InjectOptions,
  { ui, signal }: { readonly ui: Ui; readonly signal: AbortSignal },
): Promise<ExitCode> {
  if (options.paced === undefined)
    throw new SeamError('USAGE', '--k above 1 takes --paced: stages that compute share the cores of one host')
  const chosen = options.place ?? places.filter((place) => injectionPlaceOf(place) !== undefined)
  for (const place of chosen)
    if (injectionPlaceOf(place) === undefined)
      throw new SeamError('USAGE', `nothing is predicted for ${place}: leave it out, or take --k 1`)
  const baselines = new Map<string, Undisturbed[]>()
  const rows: string[] = []
  let [failed, confirmed] = [0, 0]
  for (const place of chosen) {
    const transport = place === 'relay' ? 'relay' : 'tcp'
    const quiet = baselines.get(transport) ?? []
    baselines.set(transport, quiet)
    while (quiet.length < options.runs) {
      ui.progress(`undisturbed run ${quiet.length + 1} of ${options.runs} over ${transport}`)
      quiet.push(undisturbed(await record(options, transport, signal)))
    }
    const delayed: Delayed[] = []
    while (delayed.length < options.runs) {
      ui.progress(
        `run ${delayed.length + 1} of ${options.runs} with a delay of ${options.delay} ms in ${place}`,
      )
      const trace = await record(options, transport, signal, place)
      delayed.push({ trace, injectedNs: injectedPerToken(trace, place) / (TIMES[place] ?? 1) })
    }
    const injectedNs = median(delayed.map((run) => run.injectedNs))
    const found = slopesOf(injectionPlaceOf(place)!, stageOf(place), delayed, quiet)
    const { predicted, measured, spread, outcome } = found
    if (outcome === 'missed') failed += 1
    if (outcome === 'confirmed') confirmed += 1
    ui.record({
      ...{ type: 'slope', place, transport, k: options.k, delayMs: options.delay, injectedNs, ...found },
      runs: options.runs,
    })
    rows.push(
      `${place.padEnd(15)} ${us(injectedNs)} ${[predicted, measured, spread].map((slope) => slope.toFixed(3).padStart(10)).join(' ')}  ` +
        (outcome === 'missed' ? colours.red('MISSED') : outcome),
    )
  }
  ui.print('place             injected  predicted   measured     spread')
  for (const row of rows) ui.print(row)
  ui.print(
    `ns of TPOT (of open: of TTFT) for each ns of delay, ${options.k} sequences in flight; predicted by replays of ${options.runs} undisturbed runs, measured by as many with it.`,
  )
  ui.print(
    `Of ${chosen.length} predictions ${confirmed} are confirmed (within a tenth), ${chosen.length - confirmed - failed} are off by no more than the runs differ by themselves, ${failed} missed.`,
  )
  return failed === 0 ? ExitCode.OK : ExitCode.CHECK_FAILED
}

async function record(
  { model, paced, delay, tokens, k }: InjectOptions,
  transport: string,
  signal: AbortSignal,
  place?: Place,
): Promise<RunTrace> {
  if ((model === undefined) === (paced === undefined))
    throw new SeamError('USAGE', 'give --model FILE, or --paced MS,MS,…')
  const chainOptions: ChainOptions = {
    ...(model === undefined ? { paced: paced! } : { model, local: 2 }),
    ...{ transport, embedding: 2048, k, liveness: 5000, progressDeadline: 60_000 },
  }
  const context = { ui: createUi({ json: true, progress: false }), signal }
  const { local, vocabulary, settings } = await chainOf(context, chainOptions)
  return recordRun(context, {
    local:
      place === undefined
        ? local
        : { ...local, inject: { stage: stageOf(place), injection: { place, delayMs: delay } } },
    prompts: promptsOf(k, 32, vocabulary),
    ...{ tokens, warmupTokens: 16, level: 1 },
    settings: { ...settings, command: ['bench', 'inject'], model: model ?? 'paced' },
  })
}

/** Receivers delay a wire, senders everything else: stage 0 sends hidden rows, stage 1 receives them. */
function stageOf(place: Place): number {
  return place === 'wire' || place === 'uninstrumented' ? 1 : 0
}

function perToken(trace: RunTrace): PerToken {
  const { attribution, summary } = analyse(trace)
  if (attribution === undefined)
    throw new SeamError('PROTOCOL', summary.missing.attribution ?? 'no attribution')
  const tokens = decoded(attribution)
  const first = attribution.tokens.filter(({ index }) => index === 0)
  const opened = first.flatMap(({ segments }) => segments.filter(({ category }) => category === 'open'))
  const sums = new Map<string, number>()
  for (const { segments, deliveryNs } of tokens) {
    for (const { category, startNs, endNs } of segments)
      sums.set(category, (sums.get(category) ?? 0) + endNs - startNs)
    sums.set(DELIVERY, (sums.get(DELIVERY) ?? 0) + deliveryNs)
  }
  const means = new Map([...sums].map(([category, ns]) => [category, ns / tokens.length]))
  // Only a first token meets that.
  const openNs = opened.reduce((sum, { startNs, endNs }) => sum + endNs - startNs, 0)
  return means.set('open', openNs / Math.max(1, first.length))
}

function decoded({ tokens }: Attribution) {
  return tokens.filter(({ index }) => index > 0)
}

/** The mean of what the injectors recorded between the first and the last token, as often as a token meets it. */
function injectedPerToken(trace: RunTrace, place: Place): number {
  const { tokens: all } = analyse(trace).attribution!
  const tokens = place === 'open' ? all : all.filter(({ index }) => index > 0)
  const [from, to] = [tokens[0]!.startNs, tokens.at(-1)!.endNs]
  let sum = 0
  let count = 0
  for (const { spans } of trace.processes) {
    for (let at = 0; at < spans.length; at += SPAN_RECORD_LENGTH) {
      const [name, startNs, endNs] = spans.subarray(at, at + 3) as unknown as [number, number, number]
      if (name !== SpanName.injected || startNs < from || endNs > to) continue
      sum += endNs - startNs
      count += 1
    }
  }
  if (count === 0) throw new SeamError('PROTOCOL', `no delay was recorded in ${place}`)
  return (sum / count) * (TIMES[place] ?? 1)
}

function beyond(
  value: number,
  quiet: readonly number[],
): { readonly beyondNs: number; readonly spreadNs: number } {
  const [low, high] = [Math.min(...quiet), Math.max(...quiet)]
  return { beyondNs: Math.max(value - high, low - value), spreadNs: high - low }
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

function us(ns: number): string {
  return `${(ns / 1e3).toFixed(1)} µs`.padStart(11)
}
