import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { toolChecks } from '../src/commands/doctor.ts'
import { createProgram } from '../src/program.ts'
import { BIN, scratchFolder, seamline } from './support.ts'

const folder = scratchFolder()
const COMMANDS = createProgram().commands.map((command) => command.name())

describe('help', () => {
  it.each(COMMANDS)('of %s names --json and the exit codes', (name) => {
    const command = createProgram().commands.find((candidate) => candidate.name() === name)!
    let text = ''
    command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp()
    expect(text).toContain('--json')
    expect(text).toContain('--progress')
    for (const code of ['0', '1', '2', '3', '4', '70', '130'])
      expect(text).toMatch(new RegExp(`^ {2}${code} `, 'm'))
  })

  it.each(['run', 'certify', 'worker'])('of %s offers codec, framing and transport by name', (name) => {
    const help = createProgram()
      .commands.find((candidate) => candidate.name() === name)!
      .helpInformation()
      .replace(/\s+/g, ' ')
    expect(help).toMatch(/--codec <names?>.*f32"?, "?f16/)
    expect(help).toMatch(/--framing <name>[^-]*"protobuf"/)
    expect(help).toMatch(/--transport <name>[^-]*"tcp"/)
  })

  it('ends with status 0 on standard output', async () => {
    const { code, stdout, stderr } = await seamline(['--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const name of COMMANDS) expect(stdout).toContain(name)
  })
})

describe('the program', () => {
  it('without a command prints its help as an error', async () => {
    const { code, stdout, stderr } = await seamline([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const name of COMMANDS) expect(stderr).toContain(name)
  })

  it('says its version', async () => {
    const { version } = JSON.parse(readFileSync(join(BIN, '../../package.json'), 'utf8'))
    expect(await seamline(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it('marks the options that are required, and no others', async () => {
    const { stdout } = await seamline(['split', '--help'])
    const required = stdout.replace(/\n {10,}/g, ' ').match(/^ +-.*\(required\)$/gm)
    expect(required?.map((line) => /--\w+/.exec(line)?.[0])).toEqual(['--model', '--out'])
  })
})

describe('wrong arguments end with status 2 and say what would be right', () => {
  it.each([
    ['an unknown command', ['generate'], /unknown command 'generate'/],
    ['a missing option', ['certify'], /--model/],
    ['an unknown codec', ['certify', '--model', 'x', '--codec', 'f8'], /Allowed choices are f32, f16/],
    ['an unknown framing', ['run', '--prompt', 'x', '--framing', 'json'], /Allowed choices are protobuf/],
    ['an unknown transport', ['worker', '--transport', 'udp'], /Allowed choices are tcp/],
    ['a number that is none', ['certify', '--model', 'x', '--k', 'two'], /whole number from 1 to 64/],
    ['layers with a gap', ['split', '--model', 'x', '--out', 'y', '--layers', '0-2,3-5'], /must begin at 2/],
    ['two ways to cut', ['run', '-p', 'x', '--local', '2', '--layers', '0-5'], /--local.* with .*--layers/],
    [
      'stages of a split',
      ['certify', '-m', 'x', '--manifest', 'y', '--stages', '2'],
      /--manifest.* with .*--stages/,
    ],
    [
      'layers of a split',
      ['certify', '-m', 'x', '--manifest', 'y', '--layers', '0-5'],
      /--manifest.* with .*--layers/,
    ],
    ['a stage of a whole model', ['worker', '-m', 'x', '--stage', '1'], /--stage.* with .*--model/],
    [
      'layers of workers',
      ['run', '-p', 'x', '--workers', 'a:1', '--manifest', 'y', '--layers', '0-5'],
      /nothing of the other/,
    ],
    [
      'sequences of workers',
      ['run', '-p', 'x', '--workers', 'a:1', '--sequences', '2'],
      /--sequences.* with .*--workers/,
    ],
    ['run without workers', ['run', '--prompt', 'x'], /--workers .* or --local/],
    ['a worker without a stage', ['worker', '--manifest', 'x'], /--stage/],
  ])('%s', async (_, args, message) => {
    const { code, stdout, stderr } = await seamline(args)
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^seamline: .* \[USAGE\]\n$/)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })
})

describe('with --json', () => {
  it('an error is one document on standard output', async () => {
    const { code, stdout, stderr } = await seamline([
      'split',
      '--model',
      'absent.gguf',
      '--out',
      folder,
      '--json',
    ])
    expect({ code, stderr }).toEqual({ code: 4, stderr: '' })
    const { error } = JSON.parse(stdout)
    expect(error).toMatchObject({ code: 'FILE', worker: null })
    expect(error.message).toContain('absent.gguf')
  })

  it('the document of split names files, sizes and hashes', async () => {
    const model = join(folder, 'model.gguf')
    const made = JSON.parse((await seamline(['synth', '--out', model, '--layers', '3', '--json'])).stdout)
    const { code, stdout } = await seamline([
      'split',
      '--model',
      model,
      '--stages',
      '3',
      '--out',
      folder,
      '--json',
    ])
    const split = JSON.parse(stdout)
    expect(code).toBe(0)
    expect(split.source.sha256).toBe(made.sha256)
    expect(split.stages.map((stage: { layerEnd: number }) => stage.layerEnd)).toEqual([1, 2, 3])
  })
})

describe('doctor', () => {
  it('finds everything on a machine that runs these tests', async () => {
    const { code, stdout } = await seamline(['doctor', '--json'])
    const { ready, checks } = JSON.parse(stdout)
    expect(checks.filter(({ status }: { status: string }) => status === 'missing')).toEqual([])
    expect({ ready, code }).toEqual({ ready: true, code: 0 })
    const engine = checks.find(({ name }: { name: string }) => name.includes('worker'))
    expect(engine.found).toMatch(/llama\.cpp v\d+\.\d+\.\d+/)
  })

  it('needs no tools beside a usable addon', async () => {
    const { code, stdout } = await seamline(['doctor', '--json'], { PATH: folder, CXX: '' })
    const { ready, checks } = JSON.parse(stdout)
    expect({ ready, code }).toEqual({ ready: true, code: 0 })
    const tools = checks.filter(({ found }: { found: string }) => found.startsWith('not found'))
    expect(tools.map(({ name }: { name: string }) => name)).toEqual([
      'git',
      'CMake',
      'make or Ninja',
      'C++17 compiler',
    ])
    for (const { found } of tools) expect(found).toContain('not needed')
  })

  it('says how to get the tools where an addon is to be built', async () => {
    const { PATH, CXX } = process.env
    Object.assign(process.env, { PATH: folder, CXX: '' })
    try {
      const tools = await Promise.all(toolChecks(false))
      expect(tools.map(({ status }) => status)).toEqual(Array(4).fill('missing'))
      for (const { remedy } of tools) expect(remedy).toMatch(/Debian .*apt-get .*Fedora: dnf .*macOS: /)
    } finally {
      Object.assign(process.env, { PATH, CXX: CXX ?? '' })
    }
  })

  it.each(['addon.js', 'addon.json', 'absent.node'])(
    'names a chosen addon that is none: %s',
    async (name) => {
      const path = join(folder, name)
      if (name !== 'absent.node') writeFileSync(path, '{}')
      const env = { SEAMLINE_LLAMA_ADDON: path, PATH: folder, CXX: '' }
      const { code, stdout } = await seamline(['doctor', '--json'], env)
      const { checks } = JSON.parse(stdout)
      const missing = checks.filter(({ status }: { status: string }) => status === 'missing')
      expect(missing.map((each: { name: string }) => each.name)).toEqual(['addon', 'a worker on llama.cpp'])
      expect(missing[0].found).toContain(`SEAMLINE_LLAMA_ADDON=${path} cannot be used: `)
      expect(missing[0].remedy).toBe('unset SEAMLINE_LLAMA_ADDON')
      expect(missing[1].found).toContain('worker-0: SEAMLINE_LLAMA_ADDON=')
      expect(code).toBe(1)
    },
  )

  it('names the libraries that are not there', async () => {
    const { code, stdout } = await seamline(['doctor', '--json'], { SEAMLINE_LLAMA_LIBS: folder })
    const { checks } = JSON.parse(stdout)
    const engine = checks.find(({ name }: { name: string }) => name.includes('worker'))
    expect(engine.status).toBe('missing')
    expect(engine.found).toContain(folder)
    expect(code).toBe(1)
  })

  it('warns when the threads of the stages exceed the cores', async () => {
    const { stdout } = await seamline(['doctor', '--json', '--stages', '512', '--threads', '4'])
    const cores = JSON.parse(stdout).checks.find(({ name }: { name: string }) => name === 'cores')
    expect(cores.status).toBe('warning')
    expect(cores.found).toContain('512 stages')
  })
})

describe('an output that cannot be written', () => {
  const shell = (text: string) =>
    new Promise<{ out: string; errors: string }>((resolve, reject) =>
      execFile('bash', ['-c', text], { timeout: 30_000 }, (error, out, errors) =>
        error ? reject(error) : resolve({ out, errors }),
      ),
    )
  const quoted = (...args: string[]) => [process.execPath, BIN, ...args].map((arg) => `'${arg}'`).join(' ')
  const STATUS = 'echo $' + '{PIPESTATUS[0]}'

  it.each([
    ['help', ['certify-all', '--help'], '2>&1'],
    ['the work is done', ['synth', '--layers', '1', '--out', join(folder, 'piped.gguf'), '--json'], ''],
    ['a warning is the last word', ['doctor', '--stages', '512'], ''],
  ])('a reader that is gone after %s is no error', async (_, args, redirected) => {
    expect(await shell(`${quoted(...args)} ${redirected} | true; ${STATUS}`)).toEqual({
      out: '0\n',
      errors: '',
    })
  })

  it('a reader that goes in the middle interrupts quietly', async () => {
    const model = join(folder, 'long.gguf')
    await seamline(['synth', '--out', model, '--layers', '1', '--context', '1024'])
    const args = ['run', '--local', '1', '--model', model, '--prompt', 'x', '--max-tokens', '900']
    const { out, errors } = await shell(`${quoted(...args)} | head -c 10 >/dev/null; ${STATUS}`)
    expect({ out, errors }).toEqual({ out: '130\n', errors: '' })
    const both = await shell(`${quoted(...args, '--progress')} 2>&1 | head -c 10 >/dev/null; ${STATUS}`)
    expect(both).toEqual({ out: '130\n', errors: '' })
  })

  it.runIf(existsSync('/dev/full'))(
    'a full disk is an error of a file, for help and for results',
    async () => {
      const model = join(folder, 'full.gguf')
      for (const args of [['--help'], ['synth', '--layers', '1', '--out', model], ['doctor', '--json']]) {
        const { out, errors } = await shell(`${quoted(...args)} >/dev/full; echo $?`)
        expect(out).toBe('4\n')
        expect(errors).toMatch(/^seamline: cannot write to standard output: ENOSPC.* \[FILE\]\n$/)
      }
    },
  )
})
