// Brings the build up to date, then becomes an app's dist/bin.js in this very process, so that signals, exit codes and
// terminals need no forwarding. Behind bins rather than package scripts: pnpm prints a banner on the standard output of
// scripts, which would spoil --json.
import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const stamp = join(root, 'node_modules/.cache/seamline/built')
const MINIMUM_NODE = [20, 19]

/** Runs the app in `apps/<app>`. With `native: false` it starts also where the native part does not build. */
export async function launch(app, { native = true } = {}) {
  const bin = join(root, 'apps', app, 'dist/bin.js')
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < MINIMUM_NODE[0] || (major === MINIMUM_NODE[0] && minor < MINIMUM_NODE[1])) {
    fail(`Node ${process.versions.node} is too old: ${MINIMUM_NODE.join('.')} or later is needed`)
  }
  if (!native) {
    if (!existsSync(bin))
      await build([process.execPath, join(root, 'node_modules/typescript/bin/tsc'), '-b', `apps/${app}`])
  } else if (isStale()) {
    const startedAt = new Date()
    // Turbo looks for pnpm on the path, where it is only below pnpm itself.
    const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const turbo = process.env.npm_config_user_agent?.startsWith('pnpm/')
      ? [process.execPath, join(root, 'node_modules/turbo/bin/turbo')]
      : ['npx', '-y', packageManager, 'exec', 'turbo']
    await build([...turbo, 'run', 'build', '--output-logs=errors-only'])
    mkdirSync(dirname(stamp), { recursive: true })
    writeFileSync(stamp, '')
    utimesSync(stamp, startedAt, startedAt) // what changed during the build is newer
  }
  process.argv[1] = bin
  await import(pathToFileURL(bin).href)
}

/** True when an input of the build is newer than the last complete build, or an output is gone. */
function isStale() {
  const built = modifiedMs(stamp)
  const members = ['packages', 'apps'].flatMap((group) =>
    readdirSync(join(root, group)).map((name) => join(root, group, name)),
  )
  const projects = members.filter((folder) => existsSync(join(folder, 'tsconfig.json')))
  return (
    projects.some((folder) => !existsSync(join(folder, 'dist'))) ||
    ['pnpm-lock.yaml', 'tsconfig.base.json', 'turbo.json'].some(
      (file) => modifiedMs(join(root, file)) > built,
    ) ||
    projects.some((folder) =>
      ['src', 'assembly', 'native', 'proto', 'scripts', 'package.json', 'tsconfig.json'].some(
        (input) => newestMs(join(folder, input)) > built,
      ),
    )
  )
}

/** Newest modification at or below a path; folders count, so that a removed file is seen too. */
function newestMs(path) {
  const own = modifiedMs(path)
  if (own === 0 || !statSync(path).isDirectory()) return own
  return readdirSync(path).reduce((newest, name) => Math.max(newest, newestMs(join(path, name))), own)
}

function modifiedMs(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/** Runs a command quietly, with what it says when it fails on standard error; ends the process then. */
async function build([tool, ...args]) {
  const terminal = process.stderr.isTTY
  const startedMs = Date.now()
  const show = () =>
    process.stderr.write(`\rseamline: building, ${Math.round((Date.now() - startedMs) / 1000)} s `)
  if (!terminal) process.stderr.write('seamline: building; the first time takes about half a minute\n')
  const ticking = terminal ? setInterval(show, 1000) : undefined
  let output = ''
  const child = spawn(tool, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1' },
  })
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const status = await new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('close', resolve)
  })
  clearInterval(ticking)
  if (terminal) process.stderr.write('\r\x1b[2K')
  if (status === 0) return
  process.stderr.write(output)
  fail('the build failed, see above; `pnpm seamline doctor` says what this machine lacks')
}

function fail(message) {
  console.error(`seamline: ${message}`)
  process.exit(4)
}
