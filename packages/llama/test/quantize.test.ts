import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openGguf } from '@seamline/gguf'
import { describe, expect, it } from 'vitest'
import { llamaExecutor } from '../src/index.ts'
import { quantizeModel } from '../src/quantize.ts'
import { inFolder, writeModel } from './model.ts'

describe('quantizeModel', () => {
  it('writes a model of the same tensors in the types of the mix, the same bytes each time', async () => {
    await inFolder(async (folder) => {
      const path = await writeModel(folder, 'F16')
      const [out, again] = [join(folder, 'q4.gguf'), join(folder, 'again.gguf')]
      await quantizeModel({ path, out, type: 'Q4_K_M' })
      await quantizeModel({ path, out: again, type: 'Q4_K_M', threads: 2 })
      expect((await readFile(again)).equals(await readFile(out))).toBe(true)
      const [before, after] = [openGguf(path), openGguf(out)].map((file) => [...file.tensors.values()])
      expect(new Set(after!.map((tensor) => tensor.name))).toEqual(
        new Set(before!.map((tensor) => tensor.name)),
      )
      expect(new Set(after!.map((tensor) => tensor.type.name))).toEqual(new Set(['F32', 'Q4_K', 'Q6_K']))
      const stage = await llamaExecutor({ path: out, contextLength: 64 })
      await stage.close()
      expect((await readdir(folder)).sort()).toEqual(['F16.gguf', 'again.gguf', 'q4.gguf'])
    })
  })

  it('names what it cannot do and leaves nothing behind', async () => {
    await inFolder(async (folder) => {
      const path = join(folder, 'bad.gguf')
      const out = join(folder, 'out.gguf')
      await writeFile(path, 'not a model')
      const refused = (change: object, code: string, message: RegExp) =>
        expect(quantizeModel({ path, out, type: 'Q6_K', ...change })).rejects.toMatchObject({
          code,
          message: expect.stringMatching(message),
        })
      await refused({}, 'EXECUTOR', /bad\.gguf: .*magic/)
      await refused({ path: join(folder, 'absent') }, 'FILE', /absent: No such/)
      await refused({ out: join(folder, 'absent', 'out') }, 'FILE', /absent/)
      await refused({ type: 'Q9' }, 'USAGE', /Q9 is not one of F16/)
      await refused({ threads: 0 }, 'USAGE', /threads is 0/)
      const q8 = await writeModel(folder, 'Q8_0')
      await refused({ path: q8 }, 'EXECUTOR', /requantizing from type q8_0/)
      expect((await readdir(folder)).sort()).toEqual(['Q8_0.gguf', 'bad.gguf'])
    })
  })
})
