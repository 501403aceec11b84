/** Lanes over time: drawn for the visible window only, one path for each colour of a lane. */
export {}

interface Data {
  readonly processes: readonly string[]
  readonly spanNames: readonly { readonly name: string; readonly group: string }[]
  readonly tracks: readonly {
    readonly process: number
    readonly name: string
    readonly spans: readonly number[]
  }[]
}

const data = JSON.parse(document.getElementById('data')!.textContent!) as Data
const chart = document.getElementById('lane-chart')
const tools = document.getElementById('lane-tools')
const tip = document.getElementById('tip')!
if (chart !== null && tools !== null) start(chart, tools)

function start(chart: HTMLElement, tools: HTMLElement): void {
  const fields = 6
  const tracks = data.tracks.filter((track) => track.spans.length > 0)
  const endNs = tracks.reduce((end, { spans }) => {
    for (let at = 0; at < spans.length; at += fields) end = Math.max(end, spans[at + 1]! + spans[at + 2]!)
    return end
  }, 1)
  const rowHeight = 20
  const axisHeight = 22
  let fromNs = 0
  let toNs = endNs
  let selected = 0
  let current = -1
  let top = 0
  const rows: { y: number; track: (typeof tracks)[number] }[] = []
  const label = (): number => (chart.clientWidth < 560 ? 92 : 170)

  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  chart.replaceChildren(svg)
  const range = document.createElement('span')
  const button = (text: string, name: string, act: () => void): void => {
    const element = document.createElement('button')
    element.type = 'button'
    element.textContent = text
    element.setAttribute('aria-label', name)
    element.addEventListener('click', act)
    tools.append(element)
  }
  button('+', 'Zoom in', () => zoom(0.5))
  button('−', 'Zoom out', () => zoom(2))
  button('◀', 'Earlier', () => pan(-0.4))
  button('▶', 'Later', () => pan(0.4))
  button('All', 'Whole run', () => view(0, endNs))
  tools.append(range)

  function view(from: number, to: number): void {
    const length = Math.max(2_000, Math.min(endNs, to - from))
    fromNs = Math.max(0, Math.min(endNs - length, from))
    toNs = fromNs + length
    draw()
  }
  function zoom(factor: number, aroundNs = (fromNs + toNs) / 2): void {
    view(aroundNs - (aroundNs - fromNs) * factor, aroundNs + (toNs - aroundNs) * factor)
  }
  function pan(part: number): void {
    const by = (toNs - fromNs) * part
    view(fromNs + by, toNs + by)
  }
  function time(ns: number, stepNs: number): string {
    const [unit, name]: [number, string] = toNs >= 1e9 ? [1e9, 's'] : toNs >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs']
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(stepNs / unit))))
    return `${(ns / unit).toFixed(digits)} ${name}`
  }
  function long(ns: number): string {
    for (const [unit, name] of [
      [1e9, 's'],
      [1e6, 'ms'],
      [1e3, 'µs'],
    ] as const)
      if (ns >= unit) return `${Number((ns / unit).toPrecision(3))} ${name}`
    return ns === 0 ? '0' : `${ns} ns`
  }
  function element(
    name: string,
    attributes: Readonly<Record<string, string | number>>,
    text?: string,
  ): Element {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name)
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value))
    if (text !== undefined) made.textContent = text
    return made
  }
  function box(x: number, y: number, width: number, height: number): string {
    return `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h-${width.toFixed(1)}z`
  }
  function add(paths: Map<string, string[]>, key: string, path: string): void {
    const list = paths.get(key)
    if (list === undefined) paths.set(key, [path])
    else list.push(path)
  }
  function clip(text: string, width: number): string {
    const fits = Math.floor(width / 6.4)
    return text.length <= fits ? text : `${text.slice(0, fits - 1)}…`
  }

  function draw(): void {
    const left = label()
    const width = Math.max(60, chart.clientWidth - left - 2)
    const perNs = width / (toNs - fromNs)
    const parts: Element[] = []
    rows.length = 0
    let y = axisHeight
    let process = -1
    const rough = (toNs - fromNs) / Math.max(2, Math.floor(width / 110))
    const power = 10 ** Math.floor(Math.log10(rough))
    const stepNs = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough)!
    tracks.forEach((track, index) => {
      if (track.process !== process) {
        process = track.process
        y += 20
        parts.push(
          element(
            'text',
            { x: 0, y: y - 6, class: 'head' },
            clip(data.processes[process] ?? '', width + left),
          ),
        )
      }
      rows.push({ y, track })
      parts.push(element('text', { x: 8, y: y + 13 }, clip(track.name, left - 14)))
      parts.push(
        element('rect', {
          x: left,
          y: y + 1,
          width,
          height: rowHeight - 3,
          style: `fill:var(--track)${index === selected && document.activeElement === chart ? ';stroke:var(--accent)' : ''}`,
        }),
      )
      const paths = new Map<string, string[]>()
      // Spans thinner than a pixel, summed for each colour and pixel.
      const thin = new Map<string, Float64Array>()
      const { spans } = track
      for (let at = 0; at < spans.length; at += fields) {
        const startNs = spans[at + 1]!
        const spanNs = spans[at + 2]!
        if (startNs + spanNs < fromNs || startNs > toNs) continue
        const depth = Math.min(2, spans[at + 3]!)
        const x0 = Math.max(0, (startNs - fromNs) * perNs)
        const x1 = Math.min(width, (startNs + spanNs - fromNs) * perNs)
        const key = `${depth}/${data.spanNames[spans[at]!]!.group}`
        if (x1 - x0 < 1) {
          const sums = thin.get(key) ?? new Float64Array(Math.ceil(width) + 1)
          thin.set(key, sums)
          sums[Math.floor(x0)]! += Math.max(1e-6, x1 - x0)
          continue
        }
        add(paths, key, box(left + x0, y + 2 + depth * 4, x1 - x0, rowHeight - 5 - depth * 4))
      }
      for (const [key, sums] of thin)
        sums.forEach((share, x) => {
          const full = rowHeight - 5
          const height = Math.min(full, Math.max(2, share * full))
          if (share > 0) add(paths, key, box(left + x, y + 2 + full - height, 1, height))
        })
      for (const [key, list] of [...paths].sort(([a], [b]) => (a < b ? -1 : 1)))
        parts.push(element('path', { d: list.join(''), style: `fill:var(--${key.slice(2)})` }))
      y += rowHeight
    })
    for (let ns = Math.ceil(fromNs / stepNs) * stepNs; ns <= toNs; ns += stepNs) {
      const x = left + (ns - fromNs) * perNs
      parts.unshift(element('line', { x1: x, x2: x, y1: axisHeight, y2: y, style: 'stroke:var(--grid)' }))
      if (x < left + width - 30) parts.push(element('text', { x: x + 3, y: 13 }, time(ns, stepNs)))
    }
    svg.setAttribute('width', String(left + width))
    svg.setAttribute('height', String(y + 4))
    svg.replaceChildren(...parts)
    range.textContent = `${long(Math.round(toNs - fromNs))} from ${long(Math.round(fromNs))}`
    top = y
  }

  function tell(index: number, at: number, x: number, yClient: number): void {
    const track = rows[index]?.track
    if (track === undefined || at < 0) return
    const { spans } = track
    const where = spans[at + 4]! >= 0 ? `\nsequence ${spans[at + 4]}, position ${spans[at + 5]}` : ''
    tip.textContent = `${data.processes[track.process]}, ${track.name}\n${data.spanNames[spans[at]!]!.name}: ${long(spans[at + 2]!)}, from ${time(spans[at + 1]!, 100)}${where}`
    tip.hidden = false
    const own = tip.getBoundingClientRect()
    tip.style.left = `${Math.max(8, Math.min(innerWidth - own.width - 8, x + 12))}px`
    tip.style.top = `${Math.max(4, yClient - own.height - 10)}px`
  }
  /** The innermost span of a lane at a time, with a little tolerance. */
  function hit(index: number, ns: number): number {
    const spans = rows[index]?.track.spans ?? []
    const tolerance = ((toNs - fromNs) / Math.max(1, chart.clientWidth)) * 2
    let found = -1
    for (let at = 0; at < spans.length; at += fields)
      if (spans[at + 1]! - tolerance <= ns && ns <= spans[at + 1]! + spans[at + 2]! + tolerance) found = at
    return found
  }

  let drag: { x: number; from: number; to: number } | null = null
  chart.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, from: fromNs, to: toNs }
  })
  addEventListener('pointerup', () => {
    drag = null
  })
  chart.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect()
    const left = label()
    if (drag !== null && event.buttons === 1) {
      const by = ((drag.x - event.clientX) / (box.width - left)) * (drag.to - drag.from)
      view(drag.from + by, drag.to + by)
      return
    }
    const y = event.clientY - box.top
    const index = rows.findIndex((row) => y >= row.y && y < row.y + rowHeight)
    const ns = fromNs + ((event.clientX - box.left - left) / (box.width - left)) * (toNs - fromNs)
    const at = index < 0 || y > top ? -1 : hit(index, ns)
    if (at >= 0) tell(index, at, event.clientX, event.clientY)
    else tip.hidden = true
  })
  chart.addEventListener('pointerleave', () => {
    tip.hidden = true
  })
  chart.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return
      event.preventDefault()
      const box = svg.getBoundingClientRect()
      const part = (event.clientX - box.left - label()) / (box.width - label())
      zoom(event.deltaY > 0 ? 1.25 : 0.8, fromNs + part * (toNs - fromNs))
    },
    { passive: false },
  )
  chart.addEventListener('keydown', (event) => {
    if (event.key === '+' || event.key === '=') zoom(0.5)
    else if (event.key === '-') zoom(2)
    else if (event.key === '0') view(0, endNs)
    else if (event.shiftKey && event.key === 'ArrowLeft') pan(-0.4)
    else if (event.shiftKey && event.key === 'ArrowRight') pan(0.4)
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      selected = Math.max(0, Math.min(tracks.length - 1, selected + (event.key === 'ArrowDown' ? 1 : -1)))
      current = -fields
      step(1)
    } else if (event.key === 'ArrowRight') step(1)
    else if (event.key === 'ArrowLeft') step(-1)
    else if (event.key === 'Escape') tip.hidden = true
    else return
    event.preventDefault()
  })
  function step(by: number): void {
    const { spans } = tracks[selected]!
    const next = current < 0 ? firstVisible(spans) : current + by * fields
    current = Math.max(0, Math.min(spans.length - fields, next))
    const startNs = spans[current + 1]!
    if (startNs < fromNs || startNs > toNs) view(startNs - (toNs - fromNs) / 2, startNs + (toNs - fromNs) / 2)
    else draw()
    const box = svg.getBoundingClientRect()
    const left = label()
    const x = left + ((startNs - fromNs) / (toNs - fromNs)) * (box.width - left)
    tell(selected, current, box.left + x, box.top + rows[selected]!.y)
  }
  function firstVisible(spans: readonly number[]): number {
    for (let at = 0; at < spans.length; at += fields) if (spans[at + 1]! >= fromNs) return at
    return 0
  }
  chart.addEventListener('focus', draw)
  chart.addEventListener('blur', () => {
    tip.hidden = true
    draw()
  })
  new ResizeObserver(draw).observe(chart)
  view(0, endNs)
}
