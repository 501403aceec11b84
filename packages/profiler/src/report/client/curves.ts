/** Curves, drawn by uPlot: what-if, time between tokens, memory. Drawn again for another width or colour scheme. */
import type uPlotClass from 'uplot'

declare const uPlot: typeof uPlotClass

interface Data {
  readonly processes: readonly string[]
  readonly interTokenNs: readonly { readonly atNs: number; readonly ns: number; readonly sequence: number }[]
  readonly memory: readonly {
    readonly process: number
    readonly atNs: readonly number[]
    readonly bytes: readonly number[]
  }[]
  readonly whatIf: readonly {
    readonly name: string
    readonly group: string
    readonly reductionPct: number
    readonly gainPctFrozen: number
    readonly gainPctRequeued: number
  }[]
}

interface Curve {
  readonly x: string
  readonly xUnit: string
  readonly y: string
  readonly yUnit: string
  readonly data: (number | null)[][]
  readonly series: { label: string; color: string; dash?: number[]; points?: boolean; stepped?: boolean }[]
}

const data = JSON.parse(document.getElementById('data')!.textContent!) as Data
/** Colours of series that stand for no group of categories. */
const plain = ['compute', 'wire', 'convert', 'frame', 'send', 'runtime', 'relay', 'wait']

const curves: Readonly<Record<string, () => Curve>> = {
  ecdf: () => {
    const sorted = data.interTokenNs.map(({ ns }) => ns / 1e6).sort((a, b) => a - b)
    return {
      x: 'time between tokens',
      xUnit: 'ms',
      y: 'share of tokens',
      yUnit: '%',
      data: [sorted, sorted.map((_, at) => (100 * (at + 1)) / sorted.length)],
      series: [{ label: 'at or below', color: 'compute', stepped: true }],
    }
  },
  order: () => {
    const sequences = [...new Set(data.interTokenNs.map(({ sequence }) => sequence))].sort((a, b) => a - b)
    const shown = sequences.slice(0, plain.length)
    return {
      x: 'time of the run',
      xUnit: 's',
      y: 'time between tokens',
      yUnit: 'ms',
      data: [
        data.interTokenNs.map(({ atNs }) => atNs / 1e9),
        ...shown.map((own, at) =>
          data.interTokenNs.map(({ ns, sequence }) =>
            sequence === own || (at === shown.length - 1 && !shown.includes(sequence)) ? ns / 1e6 : null,
          ),
        ),
      ],
      series: shown.map((own, at) => ({
        label: at === shown.length - 1 && shown.length < sequences.length ? 'others' : `sequence ${own}`,
        color: plain[at]!,
        points: true,
      })),
    }
  },
  whatif: () => {
    const rows = new Map<string, Data['whatIf'][number][]>()
    for (const row of data.whatIf) rows.set(row.name, [...(rows.get(row.name) ?? []), row])
    const best = (list: readonly Data['whatIf'][number][]): number =>
      Math.max(...list.map((row) => row.gainPctRequeued))
    const names = [...rows].sort((a, b) => best(b[1]) - best(a[1])).slice(0, 5)
    const xs = [...new Set([0, ...data.whatIf.map((row) => row.reductionPct)])].sort((a, b) => a - b)
    const at = (
      list: readonly Data['whatIf'][number][],
      x: number,
      key: 'gainPctFrozen' | 'gainPctRequeued',
    ) => (x === 0 ? 0 : (list.find((row) => row.reductionPct === x)?.[key] ?? null))
    const used = new Set<string>()
    const color = (group: string): string => {
      const free = used.has(group)
        ? (plain.find((name) => !used.has(name) && !names.some(([, list]) => list[0]!.group === name)) ??
          group)
        : group
      used.add(free)
      return free
    }
    const colors = names.map(([, list]) => color(list[0]!.group))
    return {
      x: 'shorter by',
      xUnit: '%',
      y: 'gain',
      yUnit: '%',
      data: [
        xs,
        ...names.flatMap(([, list]) => [
          xs.map((x) => at(list, x, 'gainPctRequeued')),
          xs.map((x) => at(list, x, 'gainPctFrozen')),
        ]),
      ],
      series: names.flatMap(([name], index) => [
        { label: name, color: colors[index]! },
        { label: '↳ order kept', color: colors[index]!, dash: [5, 4] },
      ]),
    }
  },
  memory: () => {
    const xs = [...new Set(data.memory.flatMap(({ atNs }) => atNs))].sort((a, b) => a - b)
    return {
      x: 'time of the run',
      xUnit: 's',
      y: 'resident',
      yUnit: 'MiB',
      data: [
        xs.map((ns) => ns / 1e9),
        ...data.memory.map(({ atNs, bytes }) => {
          const known = new Map(atNs.map((ns, at) => [ns, bytes[at]! / 2 ** 20]))
          return xs.map((ns) => known.get(ns) ?? null)
        }),
      ],
      series: data.memory.map(({ process }, at) => ({
        label: data.processes[process] ?? String(process),
        color: plain[at % plain.length]!,
      })),
    }
  },
}

for (const host of document.querySelectorAll<HTMLElement>('[data-curve]')) {
  const make = curves[host.dataset.curve!]
  if (make !== undefined) show(host, make())
}

function show(host: HTMLElement, curve: Curve): void {
  let plot: uPlotClass | null = null
  const color = (name: string): string =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
  const value = (unit: string) => (_: uPlotClass, shown: number | null) =>
    shown === null || shown === undefined ? '–' : `${Number(shown.toPrecision(4))} ${unit}`
  function draw(): void {
    plot?.destroy()
    const axis = {
      stroke: color('soft'),
      grid: { stroke: color('grid'), width: 1 },
      ticks: { stroke: color('line'), width: 1 },
      font: '11.5px system-ui, sans-serif',
      labelFont: '12px system-ui, sans-serif',
      labelSize: 22,
    }
    plot = new uPlot(
      {
        width: Math.max(200, host.clientWidth),
        height: host.clientWidth < 480 ? 220 : 280,
        scales: { x: { time: false } },
        axes: [
          { ...axis, label: `${curve.x} (${curve.xUnit})`, size: 34 },
          { ...axis, label: `${curve.y} (${curve.yUnit})`, size: 46 },
        ],
        legend: {
          markers: {
            width: 2,
            stroke: (_, at) => color(curve.series[at - 1]?.color ?? 'soft'),
            fill: (_, at) => {
              const series = curve.series[at - 1]
              return series === undefined || series.dash !== undefined ? 'transparent' : color(series.color)
            },
          },
        },
        cursor: { drag: { x: true, y: false } },
        series: [
          { label: curve.x, value: value(curve.xUnit) },
          ...curve.series.map((series) => ({
            label: series.label,
            stroke: color(series.color),
            width: 2,
            spanGaps: !series.points,
            value: value(curve.yUnit),
            ...(series.dash === undefined ? {} : { dash: series.dash }),
            ...(series.points
              ? {
                  paths: () => null,
                  points: { show: true, size: 4.5, fill: color(series.color), stroke: color(series.color) },
                }
              : { points: { show: false } }),
            ...(series.stepped ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
          })),
        ],
      },
      curve.data as uPlotClass.AlignedData,
      host,
    )
  }
  let at = -1
  host.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined || plot === null) return
    event.preventDefault()
    const xs = plot.data[0]
    at = Math.max(0, Math.min(xs.length - 1, at + step))
    plot.setCursor({ left: plot.valToPos(xs[at]!, 'x'), top: plot.bbox.height / devicePixelRatio / 2 })
  })
  let width = 0
  new ResizeObserver(() => {
    if (host.clientWidth === width) return
    width = host.clientWidth
    draw()
  }).observe(host)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
}
