import { expect, it } from 'vitest'
import { categoryGroups } from '../src/categories.ts'
import { css } from '../src/report/css.ts'

type Triple = readonly [number, number, number]

/** Machado, Oliveira and Fernandes 2009, severity 1, on linear sRGB. */
const deficiencies: Readonly<Record<string, readonly Triple[]>> = {
  none: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
}

const times = (matrix: readonly Triple[], [x, y, z]: Triple): Triple =>
  matrix.map((row) => row[0] * x + row[1] * y + row[2] * z) as unknown as Triple

function linear(hex: string): Triple {
  return [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as unknown as Triple
}

/** CIE 1976 L*a*b* under D65. */
function lab(rgb: Triple): Triple {
  const [x, y, z] = times(
    [
      [0.4124564, 0.3575761, 0.1804375],
      [0.2126729, 0.7151522, 0.072175],
      [0.0193339, 0.119192, 0.9503041],
    ],
    rgb.map((value) => Math.min(1, Math.max(0, value))) as unknown as Triple,
  )
  const [fx, fy, fz] = [x / 0.95047, y, z / 1.08883].map((t) =>
    t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116,
  ) as [number, number, number]
  return [116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)]
}

const schemes = ['light', 'dark'].map((scheme) => {
  const text = scheme === 'light' ? css : css.slice(css.indexOf('prefers-color-scheme:dark'))
  return [scheme, (name: string) => new RegExp(`--${name}:(#[0-9a-f]{6})`).exec(text)![1]!] as const
})

it.each(schemes)('groups of categories keep apart for every kind of colour vision: %s', (_, color) => {
  for (const [kind, matrix] of Object.entries(deficiencies)) {
    // Unattributed time has a pattern of its own.
    const groups = categoryGroups.filter((group) => group !== 'unattributed')
    for (const [at, a] of groups.entries())
      for (const b of groups.slice(at + 1)) {
        const [p, q] = [a, b].map((group) => lab(times(matrix, linear(color(group))))) as [Triple, Triple]
        const distance = Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2])
        // 2.3 is a just noticeable difference (Mahy et al. 1994).
        expect(distance, `${a} and ${b}, ${kind}`).toBeGreaterThan(15)
      }
  }
})
