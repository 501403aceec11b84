import { tmpdir } from 'node:os'
import { modelDir } from 'seamline/profile'
import { rootDir } from '../root.ts'

/** Folders below which machines keep what is their own; `/usr`, `/proc` and the like are the same everywhere. */
const roots = [
  ...['home', 'root', 'work', 'workspace', 'tmp', 'mnt', 'srv', 'var', 'private', 'opt', 'data', 'media'],
  ...['scratch', 'builds', 'Users', 'Volumes', 'nix/store', 'run/user'],
]
const machinePath = new RegExp(
  `(?:(?<![\\w.$~})\\]*/-])|(?<=file://))/(?:${roots.join('|')})/[\\w.@+-]+|\\b[A-Za-z]:\\\\{1,2}[\\w.-]+`,
)

/** The first path in a text that holds for one machine only. */
export function machinePathIn(content: string): string | undefined {
  return machinePath.exec(content)?.[0]
}

/** Real folders become `$REPO`, `$MODEL_DIR`, `$TMPDIR` and `$HOME`. */
export function neutral(content: string): string {
  const places: [string, string][] = [
    [modelDir(), '$MODEL_DIR'],
    [rootDir.replace(/\/$/, ''), '$REPO'],
    [tmpdir(), '$TMPDIR'],
    [process.env.HOME ?? '', '$HOME'],
  ]
  let result = content
  for (const [path, name] of places.sort(([a], [b]) => b.length - a.length)) {
    if (path.length > 1)
      result = result.replaceAll(new RegExp(`(?<![\\w.-])${escaped(path)}(?![\\w.-])`, 'g'), () => name)
  }
  return result
}

/** The reverse for a path of a specification; `base`: the folder that relative ones are below. */
export function located(path: string, base: string): string {
  if (path.startsWith('$REPO/')) return `${rootDir.replace(/\/$/, '')}${path.slice('$REPO'.length)}`
  if (path.startsWith('$MODEL_DIR/')) return `${modelDir()}${path.slice('$MODEL_DIR'.length)}`
  return path.startsWith('/') ? path : `${base}/${path}`
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
