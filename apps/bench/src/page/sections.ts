import {
  commandLine,
  formatBytes,
  formatCount,
  type Html,
  html,
  numbersOf,
  table,
} from '@seamline/profiler/report'
import { type Cell, cellLabel } from '../session/cell.ts'
import type { Session } from '../session/session.ts'
import { hashOf, textOf } from './numbers.ts'

export function bullets(lines: readonly string[]): Html {
  if (lines.length === 0) return html`<p class="empty">None.</p>`
  return html`<ul class="plain">${lines.map((line) => html`<li>${line}</li>`)}</ul>`
}

/** For a shell in which the names that stand for folders are set. */
function shellLine(command: readonly string[]): string {
  const isNeutral = (word: string) => /^\$(REPO|MODEL_DIR|TMPDIR|HOME)(\/[\w@%+=:,./-]*)?$/.test(word)
  return command.map((word) => (isNeutral(word) ? `"${word}"` : commandLine([word]))).join(' ')
}

const file = 'session.json'
const num = numbersOf(file)

/** How to do it again: commands, cells, builds and the machine. */
export function circumstances(
  { builds, environment, plan, startedAt, endedAt, outcome }: Session,
  cells: Readonly<Record<string, Cell>>,
  commands: readonly (readonly string[])[],
): Html {
  const { load, memoryBytes, cores } = environment
  const fact = (name: 'cpu' | 'governor' | 'platform' | 'kernel' | 'node' | 'v8') =>
    textOf(file, `environment.${name}`, environment[name] ?? 'not told')
  const machine: readonly (readonly [string, Html | string])[] = [
    ['CPU', html`${fact('cpu')}, ${num(cores, formatCount, 'environment.cores')} cores`],
    ['Governor', fact('governor')],
    ['Memory', num(memoryBytes, formatBytes, 'environment.memoryBytes')],
    ['System', html`${fact('platform')}, ${fact('kernel')}`],
    ['Node', html`${fact('node')}, V8 ${fact('v8')}`],
    [
      'Load at start',
      html`${load.map((value, i) => html`${i > 0 && ', '}${num(value, String, `environment.load.${i}`)}`)}`,
    ],
    ['Order', html`seed ${num(plan.seed, String, 'plan.seed')}, fresh processes for each run`],
    ['Idle before each run', num(plan.cooldownMs, (ms) => `${formatCount(ms)} ms`, 'plan.cooldownMs')],
    ['From, to', `${startedAt}, ${endedAt ?? 'not ended'}; ${outcome}`],
  ]
  return html`${commands.map((command) => html`<pre tabindex="0">${shellLine(command)}</pre>`)}${table(
    'Workloads',
    ['Cell', 'Workload'],
    Object.entries(cells).map(
      ([name, cell]) =>
        html`<tr><td>${name}</td><td>${cellLabel(cell)}<details><summary>All of it</summary><pre tabindex="0">${JSON.stringify(cell, null, 1)}</pre></details></td></tr>`,
    ),
  )}<div class="two"><div>${table(
    'Builds',
    ['Build', 'Commit', 'Files of all dist folders'],
    Object.entries(builds).map(
      ([name, { commit, dirty, distSha256 }]) =>
        html`<tr><td>${name}</td><td>${hashOf(file, `builds.${name}.commit`, commit)}${dirty && ', changed'}</td><td>${hashOf(file, `builds.${name}.distSha256`, distSha256)}</td></tr>`,
    ),
  )}</div><div>${table(
    'Machine',
    ['Machine', ''],
    machine.map(([name, value]) => html`<tr><td>${name}</td><td>${value}</td></tr>`),
  )}</div></div>`
}
