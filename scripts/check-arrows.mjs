// Fails on an import arrow that the design forbids, an undeclared or unused workspace dependency, or an import cycle.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..'))
const LEAVES = [
  'codecs',
  'codec-zstd',
  'framing',
  'transports',
  'gguf',
  'llama',
  'profiler',
  'conformance',
  'runtime',
]
const allowed = new Map([
  ['@seamline/core', []],
  ...LEAVES.map((name) => [`@seamline/${name}`, ['@seamline/core']]),
])
const problems = []

/** Yields every TypeScript file below a folder. */
function* sources(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && entry.name !== 'node_modules') yield* sources(path)
    else if (entry.name.endsWith('.ts')) yield path
  }
}

const SPECIFIER = /(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g
const isWorkspace = (name) => name.startsWith('@seamline/') || name === 'seamline'
const packageOf = (specifier) =>
  specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : specifier.split('/')[0]
const exists = (path) => {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

for (const group of ['packages', 'apps']) {
  for (const name of readdirSync(join(root, group))) {
    const folder = join(root, group, name)
    if (!exists(join(folder, 'src'))) continue
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    if (group === 'packages' && !allowed.has(manifest.name))
      problems.push(`${manifest.name}: not in the table of arrows`)
    const graph = new Map()
    const used = new Set()
    for (const file of sources(join(folder, 'src'))) {
      const edges = []
      for (const [, specifier] of readFileSync(file, 'utf8').matchAll(SPECIFIER)) {
        if (specifier.startsWith('.')) {
          const target = resolve(dirname(file), specifier)
          if (relative(folder, target).startsWith('..'))
            problems.push(`${relative(root, file)}: reaches out of its package with ${specifier}`)
          edges.push(target)
          continue
        }
        const target = packageOf(specifier)
        if (!isWorkspace(target) || target === manifest.name) continue
        used.add(target)
        if (group === 'packages' && !(allowed.get(manifest.name) ?? []).includes(target)) {
          problems.push(`${relative(root, file)}: ${manifest.name} may not import ${target}`)
        }
        if (manifest.dependencies?.[target] === undefined)
          problems.push(`${relative(root, file)}: ${target} is not among the dependencies`)
      }
      graph.set(file, edges)
    }
    for (const target of Object.keys(manifest.dependencies ?? {})) {
      if (isWorkspace(target) && !used.has(target))
        problems.push(`${manifest.name}: depends on ${target} without importing it`)
    }
    findCycle(graph)
  }
}

/** Depth-first search with colours; reports the first cycle met from each root. */
function findCycle(graph) {
  const done = new Set()
  const visit = (file, path) => {
    if (done.has(file)) return
    if (path.includes(file)) {
      const cycle = [...path.slice(path.indexOf(file)), file].map((f) => relative(root, f))
      problems.push(`import cycle: ${cycle.join(' -> ')}`)
      return
    }
    for (const next of graph.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of graph.keys()) visit(file, [])
}

for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exit(1)
console.log('arrows: every import is allowed, no cycle')
