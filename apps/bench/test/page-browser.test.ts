import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { comparisonPage } from '../src/page/comparison-page.ts'
import { selectionPage } from '../src/page/selection-page.ts'
import { comparisonInput, hostile, selectionInput } from './page-fixture.ts'

const browserPath = '/usr/bin/chromium'
/** Where set, every page that is opened is left there as a picture. */
const shots = process.env.SEAMLINE_REPORT_SHOTS

if (!existsSync(browserPath))
  console.log(
    `Skipped: the tests of report.html open it in ${browserPath}, which is not installed (Debian: apt-get install chromium).`,
  )

// Code for the page is text: the tests know no DOM.
const overflow = (page: Page): Promise<number> =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')

const compared = comparisonInput()
const selected = selectionInput()

describe.skipIf(!existsSync(browserPath))('pages of comparisons and selections in a browser', () => {
  const folder = mkdtempSync(join(tmpdir(), 'seamline-page-'))
  let context: BrowserContext
  const pages: Readonly<Record<string, string>> = {
    comparison: write('comparison', comparisonPage(compared)),
    selection: write('selection', selectionPage(selected)),
  }

  function write(name: string, text: string): string {
    const path = join(folder, `${name}.html`)
    writeFileSync(path, text)
    return pathToFileURL(path).href
  }

  async function open(url: string, width: number, colorScheme: 'light' | 'dark' = 'light') {
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
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 900 })
    await page.goto(url, { waitUntil: 'load' })
    await page.evaluate('document.querySelectorAll("details").forEach((each) => { each.open = true })')
    if (shots !== undefined) {
      mkdirSync(shots, { recursive: true })
      const name = url.split('/').at(-1)!.replace('.html', '')
      await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true })
    }
    return {
      page,
      complaints,
      others: () => requests.filter((each) => each !== url && !each.startsWith('data:')),
    }
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

  for (const name of ['comparison', 'selection'])
    for (const [width, scheme] of [
      [390, 'light'],
      [390, 'dark'],
      [1280, 'light'],
      [1280, 'dark'],
    ] as const)
      it(`${name}, ${width} px, ${scheme}: no request, no error, no horizontal scroll, text with contrast`, async () => {
        const { page, complaints, others } = await open(pages[name]!, width, scheme)
        expect(others()).toEqual([])
        expect(complaints).toEqual([])
        expect(await overflow(page)).toBe(0)
        expect(await page.evaluate(contrastCheck)).toEqual([])
        await page.close()
      })

  it.each([
    ['comparison', { 'comparison.json': compared.comparison, 'lock.json': compared.lock }],
    ['selection', { 'selection.json': selected.selection, 'plan.json': selected.plan }],
  ] as const)('shows the numbers of the %s', async (name, files) => {
    const { page } = await open(pages[name]!, 1280)
    const shown: { file: string; path: string; text: string; title: string }[] = await page.evaluate(
      `[...document.querySelectorAll('[data-path]')].map((e) => ({ ...e.dataset, text: e.textContent, title: e.title }))`,
    )
    const known = shown.filter(({ file }) => Object.hasOwn(files, file))
    const numbers = known.map(({ file, path, text, title }) => {
      const value = valueAt((files as Readonly<Record<string, unknown>>)[file], path)
      expect(isRounded(text, value), `${file}: ${path}: ${text} of ${value}`).toBe(true)
      expect(title).toContain(`${file}: ${path} = ${value}`)
      return `${file} ${path}`
    })
    if (name === 'comparison') {
      for (const [i, row] of compared.comparison.rows.entries())
        for (const key of ['a', 'b', 'effectPct', 'lowPct', 'highPct', 'p'] as const)
          if (row[key] !== null) expect(numbers).toContain(`comparison.json rows.${i}.${key}`)
      expect(numbers).toContain('lock.json primary.minimumEffectPct')
      expect(numbers).toContain('lock.json baseline["1.1b over tcp"].tpot')
    } else
      for (const i of selected.selection.ranked.keys())
        for (const key of ['gainPct', 'lowPct', 'highPct'])
          expect(numbers).toContain(`selection.json ranked.${i}.${key}`)
    await page.close()
  })

  it('draws every pair and every run where its value is', async () => {
    const { page } = await open(pages.comparison!, 1280)
    const main = compared.comparison.rows[0]!
    const dots: { tip: string; y: number }[] = await page.evaluate(
      `[...document.querySelector('#pairs figure').querySelectorAll('[data-tip]')].map((e) => ({ tip: e.dataset.tip, y: Number.parseFloat(e.getAttribute('cy') ?? e.getAttribute('y')) }))`,
    )
    expect(dots).toHaveLength(main.pairsPct.length + main.aaPairsPct.length)
    // The axis is the same to both sides of zero, so that zero is in the middle, and the same for both kinds.
    const all = [...main.pairsPct, ...main.aaPairsPct]
    const perPct = (50 - dots[0]!.y) / all[0]!
    for (const [i, value] of all.entries()) expect(dots[i]!.y).toBeCloseTo(50 - value * perPct, 2)
    const runs: { tip: string; x: number }[] = await page.evaluate(
      `[...document.querySelector('#order figure').querySelectorAll('.plot [data-tip]')].map((e) => ({ tip: e.dataset.tip, x: e.getBoundingClientRect().x }))`,
    )
    expect(runs.map(({ tip }) => tip.split(',').slice(0, 2).join())).toEqual(
      compared.stored.session.plan.runs
        .filter(({ cell }) => cell === main.cell)
        .map(({ number, arm }) => `Run ${number}, ${arm}`),
    )
    for (const [i, { x }] of runs.entries()) if (i > 0) expect(x).toBeGreaterThan(runs[i - 1]!.x)
    await page.locator('#order .plot').first().focus()
    await page.keyboard.press('ArrowRight')
    expect(await page.locator('#tip').textContent()).toContain('Run 1, ')
    await page.close()
  })

  it('lists all families, guards and sessions', async () => {
    const { page } = await open(pages.comparison!, 1280)
    const text = async (selector: string) => (await page.locator(selector).textContent()) ?? ''
    for (const label of ['TTFT', 'Prefill', 'Decode (TPOT)', 'Throughput', 'Memory (peak RSS)'])
      expect(await text('#families')).toContain(label)
    expect(await page.locator('#families tr', { hasText: 'Throughput' }).textContent()).toContain(
      'NOT MEASURED',
    )
    expect(await page.locator('#guards tr', { hasText: 'manifestSha256' }).first().textContent()).toContain(
      'not recorded',
    )
    expect(await page.locator('#guards tr', { hasText: 'bytesPerToken' }).first().textContent()).toContain(
      'equal',
    )
    for (const name of ['first', 'broken', 'second']) expect(await text('#sessions')).toContain(name)
    expect(await text('#sessions')).toContain('UNREADABLE')
    expect(await text('#how')).toContain('compare --lock "$REPO/benchmarks/locks/one.json"')
    expect(await text('#verdict')).toContain(compared.lock.lockId.slice(0, 8))
    await page.close()
  })

  it('names a guard that differs, and gives no verdict', async () => {
    const input = comparisonInput(undefined, ({ arm, cell }) => {
      if (arm !== 'B' || cell === 'encode') return {}
      return { guards: { ...compared.lock.guards[cell]!, bytesPerToken: '4242' } }
    })
    const { page } = await open(write('invalid', comparisonPage(input)), 390, 'dark')
    expect(await page.locator('.mark').first().textContent()).toContain('bytesPerToken differs')
    const row = (await page.locator('#guards tr', { hasText: 'bytesPerToken' }).first().textContent()) ?? ''
    expect(row).toContain('4242')
    expect(row).toContain('12 of 40')
    expect(row).toContain('differs')
    expect(await page.title()).toMatch(/^INVALID/)
    await page.close()
  })

  it('shows hostile text as text', async () => {
    const names = { text: hostile, cell: hostile }
    const all = [
      ['hostile-comparison', comparisonPage(comparisonInput(names))],
      ['hostile-selection', selectionPage(selectionInput(names))],
    ] as const
    for (const [name, content] of all) {
      const { page, complaints, others } = await open(write(name, content), 390)
      for (const chart of await page.locator('[data-tips]').all()) {
        await chart.focus()
        await page.keyboard.press('ArrowRight')
      }
      expect(await page.evaluate('window.hit')).toBeUndefined()
      expect(await page.locator('img').count()).toBe(0)
      expect(others()).toEqual([])
      expect(complaints).toEqual([])
      expect(await page.locator('.say').textContent()).toBe(hostile)
      expect(await overflow(page)).toBe(0)
      await page.close()
    }
  })
})

/** `rows.0.a`, and names in brackets: `baseline["a.b"].tpot`. */
function valueAt(file: unknown, path: string): number {
  const keys = [...path.matchAll(/\["((?:[^"\\]|\\.)*)"\]|[^.[\]]+/g)].map((match) => match[1] ?? match[0])
  return keys.reduce((at: unknown, key) => (at as Record<string, unknown>)[key], file) as number
}

const units: Readonly<Record<string, number>> = {
  ...{ ns: 1, µs: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 },
  ...{ '%': 1, '': 1, 'tokens/s': 1 },
}

/** Whether a text is the number to as many places as it shows. */
function isRounded(text: string, value: number): boolean {
  const [digits, unit] = text.replaceAll('\u2212', '-').replace('\u202f', '').split(' ')
  const factor = units[unit ?? '']
  if (factor === undefined || !Number.isFinite(value)) return false
  const [mantissa, exponent] = digits!.replace('+', '').split('e')
  const last = 10 ** (Number(exponent ?? 0) - (mantissa!.split('.')[1]?.length ?? 0))
  return Math.abs(Number(digits) * factor - value) <= 0.5001 * last * factor
}

/** WCAG 2: contrast of every element that has text of its own, against the nearest opaque background. */
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
  const low = []
  for (const element of document.body.querySelectorAll('*')) {
    if (['SCRIPT', 'STYLE'].includes(element.tagName)) continue
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '')) continue
    const [a, b] = [luminance(parse(getComputedStyle(element).color)), luminance(background(element))]
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (contrast < 4.5) low.push(element.className + ' ' + element.textContent.slice(0, 30) + ' ' + contrast.toFixed(2))
  }
  return low
})()`
