import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reportData } from '../src/report/data.ts'
import { reportHtml } from '../src/report/page.ts'
import { type RunSummary, runSummary } from '../src/summary.ts'
import { sample, sampleLimits, sampleVerdict } from './sample.ts'

const browserPath = '/usr/bin/chromium'
/** Where set, every page that is opened is left there as a picture. */
const shots = process.env.SEAMLINE_REPORT_SHOTS

if (!existsSync(browserPath))
  console.log(
    `Skipped: the report's tests open it in ${browserPath}, which is not installed (Debian: apt-get install chromium).`,
  )

// Code for the page is text: the tests know no DOM.
const overflow = (page: Page): Promise<number> =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')

const made = sample()
const hostile = `<img src=x onerror="window.hit=1"></script><script>window.hit=2</script>\u2028`

function summaryOf(part: Partial<Parameters<typeof runSummary>[0]> = {}): RunSummary {
  return runSummary({
    trace: made.trace,
    alignment: made.alignment,
    attribution: made.attribution,
    verdict: sampleVerdict,
    metrics: made.metrics,
    whatIf: made.whatIf,
    bytes: made.bytes,
    commands: [made.trace.settings.command],
    limits: sampleLimits,
    ...part,
  })
}

describe.skipIf(!existsSync(browserPath))('the report in a browser', () => {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-report-'))
  let context: BrowserContext
  const summary = summaryOf()
  const whole = write('whole', reportHtml(summary, reportData(made.trace, made.alignment, made.attribution)))

  function write(name: string, text: string): string {
    const path = join(folder, `${name}.html`)
    writeFileSync(path, text)
    return pathToFileURL(path).href
  }

  async function open(
    url: string,
    width: number,
    scheme: 'light' | 'dark' = 'light',
  ): Promise<{ page: Page; requests: string[]; complaints: string[] }> {
    const page = await context.newPage()
    const requests: string[] = []
    const complaints: string[] = []
    page.on('request', (request) => requests.push(request.url()))
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(error.message))
    page.on('dialog', (dialog) => {
      complaints.push(`dialog: ${dialog.message()}`)
      dialog.dismiss().catch(() => {})
    })
    await page.emulateMedia({ colorScheme: scheme })
    await page.setViewportSize({ width, height: 900 })
    await page.goto(url, { waitUntil: 'load' })
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
    if (shots !== undefined) {
      mkdirSync(shots, { recursive: true })
      const name = url.split('/').at(-1)!.replace('.html', '')
      await page.screenshot({ path: join(shots, `${name}-${width}-${scheme}.png`), fullPage: true })
    }
    return { page, requests, complaints }
  }

  beforeAll(async () => {
    context = await chromium.launchPersistentContext(join(folder, 'profile'), {
      executablePath: browserPath,
      headless: true,
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
    })
  }, 60_000)
  afterAll(async () => {
    await context?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  for (const [width, scheme] of [
    [390, 'light'],
    [390, 'dark'],
    [1280, 'light'],
    [1600, 'dark'],
  ] as const)
    it(`${width} px, ${scheme}: no request, no error, no horizontal scroll`, async () => {
      const { page, requests, complaints } = await open(whole, width, scheme)
      expect(requests.filter((url) => url !== whole && !url.startsWith('data:'))).toEqual([])
      expect(complaints).toEqual([])
      expect(await overflow(page)).toBe(0)
      // Curves and lanes are there, with something in them.
      expect(await page.locator('[data-curve] canvas').count()).toBe(4)
      expect(await page.locator('#lane-chart path').count()).toBeGreaterThan(10)
      await page.close()
    })

  it('shows the numbers of the summary', async () => {
    const { page } = await open(whole, 1280)
    const shown: { path: string; text: string; title: string }[] = await page.evaluate(
      `[...document.querySelectorAll('[data-path]')].map((e) => ({ path: e.dataset.path, text: e.textContent, title: e.title }))`,
    )
    const paths = new Set(shown.map(({ path }) => path))
    for (const wanted of [
      'metrics.1.value',
      'metrics.1.low',
      'attribution.decode.wallNs',
      'attribution.decode.unattributedPct',
      'whatIf.3.gainPctFrozen',
      'clocks.0.offsetNs',
      'memory.2.peakRssBytes',
      'bytes.0.framedBytes',
    ])
      expect(paths).toContain(wanted)
    // Every row of both attributions is on the page.
    for (const key of ['decode', 'first'] as const)
      for (const at of summary.attribution![key].rows.keys())
        expect(paths).toContain(`attribution.${key}.rows.${at}.totalNs`)
    const units: Readonly<Record<string, number>> = {
      ns: 1,
      µs: 1e3,
      ms: 1e6,
      s: 1e9,
      B: 1,
      KiB: 2 ** 10,
      MiB: 2 ** 20,
      GiB: 2 ** 30,
      '%': 1,
      '': 1,
      'tokens/s': 1,
      ppm: 1,
    }
    for (const { path, text, title } of shown) {
      const value = path
        .split('.')
        .reduce((at: unknown, key) => (at as Record<string, unknown>)[key], summary)
      expect(typeof value, path).toBe('number')
      const [digits, unit] = text.split(' ')
      const plain = digits!.replace('\u2212', '-').replaceAll('\u202f', '')
      const factor = units[unit ?? '']
      expect(factor, text).toBeDefined()
      const lastPlace = 10 ** -(plain.split('.')[1]?.length ?? 0)
      expect(Math.abs(Number(plain) * factor! - (value as number)), `${path}: ${text}`).toBeLessThanOrEqual(
        0.5001 * lastPlace * factor!,
      )
      expect(title).toContain(`summary.json: ${path} = ${value}`)
    }
    expect(await page.locator('#verdict').textContent()).toContain(summary.verdict.text)
    await page.close()
  })

  it.each(['light', 'dark'] as const)(
    'has text with a contrast of at least 4.5 (WCAG 2 AA): %s',
    async (scheme) => {
      const { page } = await open(whole, 1280, scheme)
      const low: string[] = await page.evaluate(contrastCheck)
      expect(low).toEqual([])
      await page.close()
    },
  )

  it('tells by keyboard what a chart shows, and lets its lanes be zoomed', async () => {
    const { page, complaints } = await open(whole, 1280)
    const focused = (selector: string): Promise<boolean> =>
      page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)
    for (let presses = 0; presses < 60 && !(await focused('.wf')); presses++) await page.keyboard.press('Tab')
    expect(await focused('.wf')).toBe(true)
    const tip = page.locator('#tip')
    await page.keyboard.press('ArrowRight')
    const [median] = [...made.attribution.tokens]
      .filter((token) => token.index > 0)
      .sort(
        (a, b) => a.endNs - a.startNs - (b.endNs - b.startNs) || a.sequence - b.sequence || a.index - b.index,
      )
      .slice(126)
    expect(await tip.textContent()).toContain(`(${median!.segments[0]!.category})`)
    await page.keyboard.press('ArrowRight')
    expect(await tip.textContent()).toContain(`(${median!.segments[1]!.category})`)
    await page.keyboard.press('End')
    expect(await tip.textContent()).toContain('sample')
    await page.keyboard.press('Escape')
    expect(await tip.isVisible()).toBe(false)

    await page.locator('#lane-chart').focus()
    await page.keyboard.press('ArrowRight')
    expect(await tip.textContent()).toMatch(/^coordinator, event loop\nframeEncode: /)
    const range = page.locator('#lane-tools span')
    expect(await range.textContent()).toBe('2.66 s from 0')
    await page.getByRole('button', { name: 'Zoom in' }).click()
    expect(await range.textContent()).toMatch(/^1\.33 s from/)
    await page.getByRole('button', { name: 'Whole run' }).click()
    expect(await range.textContent()).toBe('2.66 s from 0')

    await page.locator('#curve-whatif').focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await page.waitForFunction(`document.querySelector('#curve-whatif .u-legend').innerText.includes('10 %')`)
    expect(await page.locator('#curve-whatif .u-legend').textContent()).toContain('2.14 %')
    for (const chart of await page.locator('[role=img]').all())
      expect((await chart.getAttribute('aria-label'))!.length).toBeGreaterThan(20)
    expect(complaints).toEqual([])
    await page.close()
  })

  it('shows hostile text as text', async () => {
    const trace = {
      ...made.trace,
      settings: { ...made.trace.settings, model: hostile, transport: hostile },
      processes: made.trace.processes.map((process) => ({ ...process, name: `${process.name}${hostile}` })),
    }
    const bad = summaryOf({
      trace,
      verdict: { kind: hostile, text: hostile },
      metrics: made.metrics.map((metric) => ({
        ...metric,
        label: hostile,
        definition: hostile,
        note: hostile,
      })),
      whatIf: made.whatIf.map((row) => ({ ...row, category: hostile })),
      bytes: made.bytes.map((row) => ({ ...row, from: hostile, to: hostile, link: hostile })),
      commands: [[hostile]],
      limits: [hostile],
    })
    const url = write('hostile', reportHtml(bad, reportData(trace, made.alignment, made.attribution)))
    const { page, requests, complaints } = await open(url, 390)
    await page.locator('.wf').first().focus()
    await page.keyboard.press('ArrowRight')
    await page.locator('#lane-chart').focus()
    await page.keyboard.press('ArrowRight')
    expect(await page.locator('#tip').textContent()).toContain('<img src=x')
    expect(await page.evaluate('window.hit')).toBeUndefined()
    expect(await page.locator('img').count()).toBe(0)
    expect(requests.filter((request) => request !== url && !request.startsWith('data:'))).toEqual([])
    expect(complaints).toEqual([])
    expect(await page.locator('.say').textContent()).toBe(hostile)
    expect(await page.title()).toContain('<img src=x onerror=')
    expect(await overflow(page)).toBe(0)
    await page.close()
  })

  it('says what a partial run lacks, and why', async () => {
    const trace = {
      ...made.trace,
      complete: false,
      level: 0 as const,
      processes: made.trace.processes.map((process) => ({ ...process, spans: new Float64Array(0) })),
      sequences: [],
    }
    const bare = runSummary({
      trace,
      verdict: { kind: 'NO VERDICT', text: 'The run was cut before a token was made.' },
      metrics: [],
      commands: [],
      limits: [],
      missing: {
        attribution: 'spans were lost at stage 1.',
        whatIf: 'the replay did not reproduce the run.',
      },
    })
    const url = write('partial', reportHtml(bare, reportData(trace, { maps: [], closures: [] })))
    const { page, complaints } = await open(url, 390, 'dark')
    expect(complaints).toEqual([])
    expect(await page.locator('.mark').first().textContent()).toContain('Partial run')
    expect(await page.locator('header .sub').textContent()).toContain('Partial run')
    expect(await page.locator('#time .empty').textContent()).toContain('spans were lost at stage 1.')
    expect(await page.locator('#whatif .empty').textContent()).toContain(
      'the replay did not reproduce the run.',
    )
    expect(await page.locator('#lanes .empty').textContent()).toContain('level 0')
    expect(await page.locator('#metrics .empty').textContent()).toContain('cut before')
    for (const id of ['metrics', 'tokens', 'lanes', 'positions', 'itl', 'bytes', 'clocks', 'limits'])
      expect(await page.locator(`#${id} .empty`).count()).toBe(1)
    expect(await overflow(page)).toBe(0)
    await page.close()
  })

  it('prints without its controls', async () => {
    const { page } = await open(whole, 800)
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    expect(await page.locator('nav').isVisible()).toBe(false)
    expect(await page.locator('#lane-tools').isVisible()).toBe(false)
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(255, 255, 255)')
    const pdf = await page.pdf({ format: 'A4' })
    expect(pdf.subarray(0, 5).toString()).toBe('%PDF-')
    if (shots !== undefined) writeFileSync(join(shots, 'whole.pdf'), pdf)
    await page.close()
  })
})

/** WCAG 2: relative luminance and contrast of every element that has text of its own, against the nearest opaque background. */
const contrastCheck = `(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number)
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor)
      if (color[3] === undefined || color[3] === 1) return color
    }
    return [255, 255, 255]
  }
  document.querySelectorAll('details').forEach((details) => { details.open = true })
  const low = []
  for (const element of document.body.querySelectorAll('*')) {
    if (['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName)) continue
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '')) continue
    const style = getComputedStyle(element)
    const a = luminance(parse(element instanceof SVGElement ? style.fill : style.color))
    const b = luminance(background(element))
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (contrast < 4.5) low.push(element.tagName + '.' + element.className + ' ' + element.textContent.slice(0, 30) + ' ' + contrast.toFixed(2))
  }
  return low
})()`
